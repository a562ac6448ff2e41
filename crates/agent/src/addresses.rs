//! Reports changes of this node's addresses to the sync loop.

use std::net::IpAddr;
use std::time::Duration;

use dataplane::SERVICE_DEVICE;
use kernel::link::{AddressMonitor, LinkError, Links, Wake};

use crate::inbox::Sender;
use crate::sync::Event;

/// The watcher has nothing else to do; it only looks up now and then.
const LONG: Duration = Duration::from_secs(3600);
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// Start watching, and return the addresses there are now.
pub(crate) fn watch(events: Sender) -> Result<Vec<IpAddr>, LinkError> {
    let mut watcher = Watcher::open()?;
    let now = watcher.list()?;
    std::thread::Builder::new()
        .name("addresses".into())
        .spawn(move || watch_on(watcher, &events))
        .map_err(LinkError::Socket)?;
    Ok(now)
}

fn watch_on(mut watcher: Watcher, events: &Sender) {
    let mut wait = FIRST_RETRY;
    loop {
        match watcher.next() {
            Ok(addresses) => {
                wait = FIRST_RETRY;
                if events.send(Event::Addresses(addresses)).is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::error!(%error, ?wait, "Failed to watch the node's addresses; retrying");
                std::thread::sleep(wait);
                wait = (wait * 2).min(LONGEST_RETRY);
                watcher = Watcher::open().unwrap_or(watcher);
                watcher.pending = true;
            }
        }
    }
}

struct Watcher {
    monitor: AddressMonitor,
    links: Links,
    /// The addresses must be listed without waiting for a change.
    pending: bool,
}

impl Watcher {
    /// Watched before they are listed, so that no change falls between.
    fn open() -> Result<Watcher, LinkError> {
        Ok(Watcher { monitor: AddressMonitor::open()?, links: Links::open()?, pending: false })
    }

    /// The addresses after the next change.
    fn next(&mut self) -> Result<Vec<IpAddr>, LinkError> {
        while !self.pending {
            self.pending = match self.monitor.wait(LONG)? {
                Wake::Quiet => false,
                Wake::Changed | Wake::Overrun => true,
            };
        }
        let addresses = self.list()?;
        self.pending = false;
        Ok(addresses)
    }

    /// Usable addresses, those first that are global and not about to go.
    fn list(&mut self) -> Result<Vec<IpAddr>, LinkError> {
        let mut addresses = self.links.addresses()?;
        addresses.retain(|address| !address.is_tentative() && !address.is_duplicate());
        // Where a kube-proxy put addresses of services, which are not the node's.
        let links = self.links.links()?;
        if let Some(device) = links.iter().find(|link| link.name == SERVICE_DEVICE) {
            addresses.retain(|address| address.index != device.index);
        }
        addresses.sort_by_key(|address| (!address.is_global(), address.is_deprecated()));
        Ok(addresses.iter().map(|address| address.ip()).collect())
    }
}
