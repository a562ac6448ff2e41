//! Notices when somebody else flushes, changes or deletes our tables.

use std::sync::mpsc::Sender;

use dataplane::nftables::TABLE_NAME;
use kernel::nft::{self, Change, Monitor};
use model::Family;

use crate::sync::{Drift, Event};

/// Watch in a thread of its own. `own_port` is the netlink port of our own commits.
pub(crate) fn watch(own_port: u32, events: Sender<Event>) -> std::io::Result<()> {
    let monitor = Monitor::open(own_port)?;
    std::thread::Builder::new().name("drift".into()).spawn(move || forward(monitor, &events))?;
    Ok(())
}

fn forward(mut monitor: Monitor, events: &Sender<Event>) {
    loop {
        let touched: Vec<Family> = match monitor.wait(None) {
            Ok(Change::Tables(tables)) => tables
                .iter()
                .filter(|table| table.table == TABLE_NAME)
                .map(|table| match table.family {
                    nft::Family::Ip => Family::V4,
                    nft::Family::Ip6 => Family::V6,
                })
                .collect(),
            // Notifications were lost: any of them may have been about us.
            Ok(Change::Overrun) => Family::BOTH.to_vec(),
            Ok(Change::Nothing) => continue,
            Ok(Change::Stopped) => return,
            Err(error) => {
                tracing::error!(%error, "Changes by others go unnoticed from now on; restart to watch again");
                return;
            }
        };
        for family in touched {
            if events.send(Event::Drift(Drift { family })).is_err() {
                return;
            }
        }
    }
}
