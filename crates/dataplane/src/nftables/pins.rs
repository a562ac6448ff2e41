//! Pins of ClientIP affinity whose endpoint is gone: they are looked for in a thread of its own, because reading hundreds of
//! thousands takes seconds, and handed to the sync thread, which deletes them some at a time.

use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use kernel::nft::{self, Connection};

use crate::backend::SyncError;
use table::{PINS_TOGETHER, Pin, PinSweep};

/// Between two attempts at a sweep that services wait for.
const RETRY: Duration = Duration::from_secs(2);

/// Pins that are to go, and the sweep that found them.
#[derive(Debug)]
pub struct FoundPins {
    pub sweep: PinSweep,
    pins: Vec<Pin>,
    /// After a failed deletion that services wait for.
    not_before: Option<Instant>,
}

impl FoundPins {
    pub fn is_empty(&self) -> bool {
        self.pins.is_empty()
    }

    /// How long from `now` until some of them may be deleted.
    pub fn wait(&self, now: Instant) -> Duration {
        self.not_before.map_or(Duration::ZERO, |time| time.saturating_duration_since(now))
    }

    /// Some of the pins; they count as handled.
    pub fn take_some(&mut self) -> Vec<Pin> {
        self.pins.split_off(self.pins.len().saturating_sub(PINS_TOGETHER))
    }

    /// They could not be deleted. The rules know a pin whose endpoint is gone; but nothing else finds those that services
    /// wait for.
    pub fn failed(&mut self, some: Vec<Pin>, error: &SyncError, now: Instant) {
        tell(&self.sweep, "delete", error);
        if !self.sweep.awaited_by.is_empty() {
            self.pins.extend(some);
            self.not_before = Some(now + RETRY);
        }
    }
}

/// Takes what was found. Returns whether anybody still does.
pub type TakePins = Box<dyn Fn(FoundPins) -> bool + Send>;

/// Start the search in the calling thread's network namespace.
pub fn start(take: TakePins) -> io::Result<Sender<PinSweep>> {
    let (sender, receiver) = channel();
    std::thread::Builder::new().name("pins".into()).spawn(move || search(&receiver, &take))?;
    Ok(sender)
}

fn search(sweeps: &Receiver<PinSweep>, take: &TakePins) {
    let mut connection = None;
    while let Ok(first) = sweeps.recv() {
        // What piled up while the last pins were read is looked for together.
        let sweeps = PinSweep::merge(std::iter::once(first).chain(sweeps.try_iter()));
        if !sweeps.into_iter().all(|sweep| carry_out(&mut connection, sweep, take)) {
            return;
        }
    }
}

/// Find the pins, and hand them over. Returns whether they were accepted.
fn carry_out(connection: &mut Option<Connection>, sweep: PinSweep, take: &TakePins) -> bool {
    let pins = loop {
        match find(connection, &sweep) {
            Ok(pins) => break pins,
            Err(error) => tell(&sweep, "read", &error),
        }
        *connection = None;
        if sweep.awaited_by.is_empty() {
            break Vec::new();
        }
        std::thread::sleep(RETRY);
    };
    take(FoundPins { sweep, pins, not_before: None })
}

fn find(connection: &mut Option<Connection>, sweep: &PinSweep) -> Result<Vec<Pin>, SweepError> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(Connection::open().map_err(SweepError::Socket)?),
    };
    sweep.find(connection).map_err(SweepError::Read)
}

#[derive(Debug)]
enum SweepError {
    Socket(io::Error),
    Read(nft::Error),
}

impl fmt::Display for SweepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SweepError::Socket(error) => write!(f, "cannot open a netlink socket: {error}"),
            SweepError::Read(error) => write!(f, "{error}"),
        }
    }
}

fn tell(sweep: &PinSweep, what: &str, error: &dyn fmt::Display) {
    let family = sweep.family;
    match sweep.awaited_by.as_slice() {
        [] => tracing::warn!(
            %family, %error,
            "Failed to {what} the pins of removed endpoints; their clients move after one retransmission"
        ),
        services => tracing::warn!(
            %family, %error, services = services.len(), first = %services[0],
            "Failed to {what} the pins of services that change to policy Local; they stay without affinity, retrying"
        ),
    }
}
