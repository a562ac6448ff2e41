//! Removes what another kube-proxy left in ipvs mode. Its chains are mostly those of iptables mode and go with them.

use kernel::link::{LinkError, Links};

use super::NAME;
use crate::leftovers::{Leftover, Removal, Search};

/// Holds the addresses of services.
const DEVICE: &str = "kube-ipvs0";
/// Three lines of heading, then one per virtual server and endpoint.
const TABLE: &str = "/proc/net/ip_vs";
const HEADING: usize = 3;

pub(super) fn remove(search: Search) -> Removal {
    let mut removal = Removal::default();
    match remove_device() {
        Ok(was_there) => removal.had_some = was_there,
        Err(error) => {
            let what = format!("the device {DEVICE} of ipvs mode may still be there");
            removal.left.push(Leftover::new(NAME, what).because(error));
        }
    }
    if removal.had_some || search == Search::Everywhere {
        removal.left.extend(servers());
    }
    removal
}

/// Whether the device is there, as far as is known.
pub(crate) fn has_device() -> bool {
    Links::open().and_then(|mut links| is_among(&mut links)).unwrap_or(false)
}

/// Returns whether it was there.
fn remove_device() -> Result<bool, LinkError> {
    let mut links = Links::open()?;
    let is_there = is_among(&mut links)?;
    if is_there {
        links.delete(DEVICE)?;
        tracing::info!(device = DEVICE, "Removed the device of ipvs mode and its addresses");
    }
    Ok(is_there)
}

fn is_among(links: &mut Links) -> Result<bool, LinkError> {
    Ok(links.links()?.iter().any(|link| link.name == DEVICE))
}

/// What is in IPVS itself finds no packets without the addresses of the device.
fn servers() -> Option<Leftover> {
    // A kernel without IPVS has no such file.
    let text = std::fs::read_to_string(TABLE).ok()?;
    let servers = text.lines().count().saturating_sub(HEADING);
    let what = format!(
        "{servers} lines of virtual servers and endpoints are still in IPVS, which this build cannot remove; \
         if only kube-proxy uses them, run: ipvsadm --clear"
    );
    (servers > 0).then(|| Leftover::new(NAME, what).idle())
}
