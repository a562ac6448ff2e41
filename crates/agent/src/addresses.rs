//! Keeps the sync loop told of this node's addresses.

use std::net::IpAddr;
use std::sync::mpsc::Sender;
use std::time::Duration;

use kernel::link::{AddressMonitor, LinkError, Links, Wake};

use crate::sync::Event;

/// The watcher has nothing else to do; it only looks up now and then.
const LONG: Duration = Duration::from_secs(3600);

/// Start watching, and return the addresses there are now.
pub(crate) fn watch(events: Sender<Event>) -> Result<Vec<IpAddr>, LinkError> {
    // Watched before they are listed, so that no change falls between.
    let monitor = AddressMonitor::open()?;
    let mut links = Links::open()?;
    let now = list(&mut links)?;
    let spawned = std::thread::Builder::new()
        .name("addresses".into())
        .spawn(move || forward(monitor, links, &events))
        .map_err(LinkError::Socket)?;
    drop(spawned);
    Ok(now)
}

fn list(links: &mut Links) -> Result<Vec<IpAddr>, LinkError> {
    let mut addresses: Vec<_> = links.addresses()?;
    // Global ones first: the first of a family stands in for the primary where no Node object names it.
    addresses.sort_by_key(|address| !address.is_global());
    let usable = addresses.iter().filter(|address| !address.is_tentative() && !address.is_duplicate());
    Ok(usable.map(|address| address.ip()).collect())
}

fn forward(mut monitor: AddressMonitor, mut links: Links, events: &Sender<Event>) {
    loop {
        let addresses = match monitor.wait(LONG) {
            Ok(Wake::Quiet) => continue,
            Ok(Wake::Changed | Wake::Overrun) => list(&mut links),
            Err(error) => Err(error),
        };
        match addresses {
            Ok(addresses) => {
                if events.send(Event::Addresses(addresses)).is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::error!(%error, "Address changes go unnoticed from now on; restart to watch again");
                return;
            }
        }
    }
}
