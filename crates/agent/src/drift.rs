//! Notices when somebody else flushes, changes or deletes our tables.

use std::io;
use std::time::Duration;

use dataplane::nftables::TABLE_NAME;
use kernel::nft::{self, Change, Monitor, Process};
use model::Family;

use crate::config::Mode;
use crate::inbox::Sender;
use crate::sync::Event;

/// After a failure the subscription is renewed, at first soon, then ever more patiently.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// What is known of a change by others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Drift {
    /// Our table of this family was touched, by whom if that is known.
    Changed(Family, Option<Process>),
    /// Notifications were lost: any table may have been.
    Unsure,
}

impl Drift {
    /// Among those that wait: once a table is known to be changed, further changes of it say nothing more.
    pub(crate) fn join(self, waiting: &mut Vec<Drift>) {
        if !waiting.iter().any(|known| known.family() == self.family()) {
            waiting.push(self);
        }
    }

    fn family(&self) -> Option<Family> {
        match self {
            Drift::Changed(family, _) => Some(*family),
            Drift::Unsure => None,
        }
    }
}

/// What is said of a change that was told.
pub(crate) fn told(by: Option<&Process>) -> String {
    match by {
        Some(process) => format!("{process} changed our table in nf_tables"),
        None => "Somebody else changed our table in nf_tables".to_owned(),
    }
}

/// What is said when a look at the rules finds damage.
pub(crate) fn found(mode: Mode) -> &'static str {
    match mode {
        Mode::Iptables => "Somebody else changed our rules in iptables",
        Mode::Unset | Mode::Nftables | Mode::Ipvs => "Our table in nf_tables is gone",
    }
}

/// Watch in a thread of its own, from now on. `own_port` is the netlink port of our own commits.
pub(crate) fn watch(own_port: u32, events: Sender) -> io::Result<()> {
    let monitor = Monitor::open(own_port, Some(TABLE_NAME))?;
    std::thread::Builder::new().name("drift".into()).spawn(move || watch_on(monitor, own_port, &events))?;
    Ok(())
}

fn watch_on(mut monitor: Monitor, own_port: u32, events: &Sender) {
    while let Err(error) = forward(&mut monitor, events) {
        tracing::error!(%error, "Lost the notifications of nf_tables; subscribing again");
        monitor = reopen(own_port);
        if events.send(Event::Drift(Drift::Unsure)).is_err() {
            return;
        }
    }
}

fn reopen(own_port: u32) -> Monitor {
    let mut wait = FIRST_RETRY;
    loop {
        match Monitor::open(own_port, Some(TABLE_NAME)) {
            Ok(monitor) => return monitor,
            Err(error) => tracing::error!(%error, ?wait, "Cannot watch nf_tables for changes by others"),
        }
        std::thread::sleep(wait);
        wait = (wait * 2).min(LONGEST_RETRY);
    }
}

/// Pass on what concerns us, until nobody listens.
fn forward(monitor: &mut Monitor, events: &Sender) -> io::Result<()> {
    loop {
        let drifts: Vec<Drift> = match monitor.wait(None)? {
            Change::Tables(tables) => tables
                .into_iter()
                .filter(|table| table.table == TABLE_NAME)
                .map(|table| match table.family {
                    nft::Family::Ip => Drift::Changed(Family::V4, table.by),
                    nft::Family::Ip6 => Drift::Changed(Family::V6, table.by),
                })
                .collect(),
            Change::Overrun => vec![Drift::Unsure],
            Change::Nothing => continue,
            Change::Stopped => return Ok(()),
        };
        for drift in drifts {
            if events.send(Event::Drift(drift)).is_err() {
                return Ok(());
            }
        }
    }
}
