//! Notices when another process flushes, changes or deletes our tables: the kernel reports every commit.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use kernel::nft::{self, Monitor, Notification, Process};
use model::Family;

use super::TABLE_NAME;
use crate::drift::{Drift, TellDrift};

/// After a failure the subscription is renewed, at first soon, then ever more patiently.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// Commits of others that may have been missed.
pub(super) fn missed(why: &'static str) -> Drift {
    Drift { family: None, why: Cow::Borrowed(why) }
}

/// Our table of this family was touched, by whom if that is known.
fn changed(family: Family, by: Option<&Process>) -> Drift {
    let why = match by {
        Some(process) => Cow::Owned(format!("{process} changed our table in nf_tables")),
        None => Cow::Borrowed("Another process changed our table in nf_tables"),
    };
    Drift { family: Some(family), why }
}

/// Subscribe. `own_port` is the netlink port of our own commits.
pub(super) fn subscribe(own_port: u32) -> io::Result<Monitor> {
    Monitor::open(own_port, Some(TABLE_NAME))
}

/// Pass on what comes, in a thread of its own.
pub(super) fn start(monitor: Monitor, own_port: u32, tell: TellDrift) -> io::Result<()> {
    std::thread::Builder::new().name("drift".into()).spawn(move || watch_on(monitor, own_port, &tell))?;
    Ok(())
}

fn watch_on(mut monitor: Monitor, own_port: u32, tell: &TellDrift) {
    while let Err(error) = forward(&mut monitor, tell) {
        tracing::error!(%error, "Lost the notifications of nf_tables; subscribing again");
        monitor = reopen(own_port);
        if !tell(missed("Notifications of nf_tables were lost")) {
            return;
        }
    }
}

fn reopen(own_port: u32) -> Monitor {
    let mut wait = FIRST_RETRY;
    loop {
        match subscribe(own_port) {
            Ok(monitor) => return monitor,
            Err(error) => {
                tracing::error!(%error, ?wait, "Failed to watch nf_tables for changes by other processes; retrying")
            }
        }
        std::thread::sleep(wait);
        wait = (wait * 2).min(LONGEST_RETRY);
    }
}

/// Pass on what concerns us, until the receiver is gone.
fn forward(monitor: &mut Monitor, tell: &TellDrift) -> io::Result<()> {
    loop {
        let drifts: Vec<Drift> = match monitor.wait(None)? {
            Notification::Tables(tables) => tables
                .into_iter()
                .filter(|table| table.table == TABLE_NAME)
                .map(|table| match table.family {
                    nft::TableFamily::Ip => changed(Family::V4, table.by.as_ref()),
                    nft::TableFamily::Ip6 => changed(Family::V6, table.by.as_ref()),
                })
                .collect(),
            Notification::Overrun => vec![missed("Notifications of nf_tables were lost")],
            Notification::Nothing => continue,
            Notification::Stopped => return Ok(()),
        };
        if !drifts.into_iter().all(tell) {
            return Ok(());
        }
    }
}
