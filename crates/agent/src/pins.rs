//! Pins of ClientIP affinity whose endpoint is gone: they are looked for in a thread of its own, because reading hundreds of
//! thousands takes seconds, and handed to the sync thread, which deletes them some at a time.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use dataplane::SyncError;
use dataplane::nftables::{PINS_TOGETHER, Pin, PinSweep, count_pins, room_for_pins};
use kernel::nft::{self, Connection};
use kernel::sysctl;
use model::Family;

use crate::inbox;
use crate::metrics::{Collector, Description, Kind, Page, label_text};
use crate::sync::Event;

/// Between two attempts at a sweep that services wait for.
const RETRY: Duration = Duration::from_secs(2);

/// Pins that are to go, and the sweep that found them.
#[derive(Debug)]
pub(crate) struct FoundPins {
    pub(crate) sweep: PinSweep,
    pins: Vec<Pin>,
    /// After a failed deletion that services wait for.
    not_before: Option<Instant>,
}

impl FoundPins {
    pub(crate) fn is_empty(&self) -> bool {
        self.pins.is_empty()
    }

    /// How long from `now` until some of them may be deleted.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        self.not_before.map_or(Duration::ZERO, |time| time.saturating_duration_since(now))
    }

    /// Some of the pins; they count as handled.
    pub(crate) fn take_some(&mut self) -> Vec<Pin> {
        self.pins.split_off(self.pins.len().saturating_sub(PINS_TOGETHER))
    }

    /// They could not be deleted. The rules know a pin whose endpoint is gone; but nobody else finds those that services
    /// wait for.
    pub(crate) fn failed(&mut self, some: Vec<Pin>, error: &SyncError, now: Instant) {
        tell(&self.sweep, "delete", error);
        if !self.sweep.awaited_by.is_empty() {
            self.pins.extend(some);
            self.not_before = Some(now + RETRY);
        }
    }
}

/// Start the search in the calling thread's network namespace.
pub(crate) fn start(events: inbox::Sender) -> io::Result<Sender<PinSweep>> {
    let (sender, receiver) = channel();
    std::thread::Builder::new().name("pins".into()).spawn(move || search(&receiver, &events))?;
    Ok(sender)
}

fn search(sweeps: &Receiver<PinSweep>, events: &inbox::Sender) {
    let mut connection = None;
    while let Ok(first) = sweeps.recv() {
        // What piled up while the last pins were read is looked for together.
        let sweeps = PinSweep::merge(std::iter::once(first).chain(sweeps.try_iter()));
        if !sweeps.into_iter().all(|sweep| carry_out(&mut connection, sweep, events)) {
            return;
        }
    }
}

/// Find the pins, and hand them over. Returns whether somebody takes them.
fn carry_out(connection: &mut Option<Connection>, sweep: PinSweep, events: &inbox::Sender) -> bool {
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
    events.send(Event::PinsFound(FoundPins { sweep, pins, not_before: None })).is_ok()
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

const HELD: Description = Description {
    name: "pointsman_affinity_pins",
    kind: Kind::Gauge,
    labels: &["ip_family", "destination"],
    help: "Clients that ClientIP affinity has pinned to an endpoint, by what they called: an address or a node port",
};
const LIMIT: Description = Description {
    name: "pointsman_affinity_pins_limit",
    kind: Kind::Gauge,
    labels: &[],
    help: "Most pins of one IP family and kind of destination; beyond it, new clients go unpinned",
};
#[cfg(test)]
pub(crate) const NAMES: [&str; 2] = [HELD.name, LIMIT.name];

/// How many clients may be pinned: as many as the node may track connections of.
pub(crate) fn room() -> u32 {
    let tracked = sysctl::Root::system().read("/proc/sys/net/netfilter/nf_conntrack_max").ok();
    tracked.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Writes how full the maps of pins are at the end of the page. Linux says it from 6.16 on.
pub(crate) fn collector() -> Arc<dyn Collector> {
    Arc::new(Fullness)
}

struct Fullness;

impl Collector for Fullness {
    fn collect(&self, page: &mut Page) {
        let Ok(mut connection) = Connection::open() else { return };
        let held = Family::BOTH.map(|family| (family, count_pins(&mut connection, family)));
        let known = || held.iter().filter_map(|(family, pins)| Some((family.to_string(), pins.as_ref()?)));
        if known().next().is_none() {
            return;
        }
        page.family(HELD.name, HELD.kind.word(), HELD.help);
        for (family, pins) in known() {
            for (destination, count) in ["address", "nodeport"].into_iter().zip(pins) {
                let labels = label_text([("ip_family", &*family), ("destination", destination)]);
                page.count(HELD.name, &labels, *count as u64);
            }
        }
        page.family(LIMIT.name, LIMIT.kind.word(), LIMIT.help);
        page.count(LIMIT.name, "", u64::from(room_for_pins(room())));
    }
}
