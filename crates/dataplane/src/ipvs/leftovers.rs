//! Removes what mode ipvs leaves, ours or another kube-proxy's: virtual servers, routes, rules, the device, ipsets. Chains
//! of iptables that another one left are mostly those of iptables mode and go with them.

use std::net::IpAddr;

use ipnet::IpNet;
use kernel::ipvs::{self, Batch, DumpedServer, Transport as _};
use kernel::{ipset, link::Links};

use super::servers::OURS;
use super::{DEVICE, NAME, NODE_PORTS, ground};
use crate::leftovers::{Leftover, Removal, Search};

/// Names of ipsets that another kube-proxy makes in this mode.
const IPSETS: &str = "KUBE-";

pub(super) fn remove(search: Search) -> Removal {
    let mut removal = Removal::default();
    if search == Search::WhereSeen && !ground::has_device() {
        return removal;
    }
    match remove_servers() {
        Ok(count) => removal.had_some |= count > 0,
        Err(error) => {
            removal.left.push(failed("virtual servers of ipvs mode may still be there").because(error))
        }
    }
    match ground::clear() {
        Ok(had_some) => removal.had_some |= had_some,
        Err(error) => {
            let what = format!("the device {DEVICE}, routes or rules of ipvs mode may still be there");
            removal.left.push(failed(&what).because(error));
        }
    }
    removal.left.extend(remove_sets());
    if removal.had_some {
        tracing::info!("Removed the virtual servers, routes and rules of ipvs mode");
    }
    removal
}

/// What another kube-proxy left beside what this agent has just written: addresses on the device.
pub(super) fn remove_strays() -> Vec<Leftover> {
    let removed = Links::open().and_then(|mut links| {
        let addresses = ground::addresses_on_device(&mut links)?;
        for net in &addresses {
            links.delete_address(DEVICE, *net)?;
        }
        Ok(addresses.len())
    });
    let mut left: Vec<Leftover> = remove_sets().into_iter().collect();
    match removed {
        Ok(0) => {}
        Ok(count) => tracing::info!(device = DEVICE, count, "Removed addresses that another kube-proxy left"),
        Err(error) => {
            let what =
                format!("addresses that another kube-proxy left on the device {DEVICE} may still be there");
            left.push(failed(&what).because(error));
        }
    }
    left
}

/// Servers that are ours, and those at addresses that only a kube-proxy makes local.
fn remove_servers() -> Result<usize, ipvs::Error> {
    let Some(mut servers) = ipvs::Connection::open_if_loaded()? else { return Ok(0) };
    let prefixes = ground::local_prefixes().unwrap_or_default();
    let own: Vec<IpAddr> = Links::open()
        .and_then(|mut links| links.addresses())
        .unwrap_or_default()
        .iter()
        .map(|one| one.ip())
        .collect();
    let mut batch = Batch::new();
    for found in servers.services()?.iter().filter(|found| is_kube_proxys(found, &prefixes, &own)) {
        batch.delete_service(found.server);
    }
    servers.commit(&batch)?;
    Ok(batch.len())
}

fn is_kube_proxys(found: &DumpedServer, prefixes: &[IpNet], own: &[IpAddr]) -> bool {
    let ipvs::VirtualServer { address, port, .. } = found.server;
    let on_node = !prefixes.is_empty() && own.contains(&address) && NODE_PORTS.contains(&port);
    found.settings.flags & OURS != 0 || on_node || prefixes.iter().any(|net| net.contains(&address))
}

/// Those that rules still refer to stay, and are no longer looked into once these rules are gone.
fn remove_sets() -> Option<Leftover> {
    let names = match ipset::names() {
        Ok(names) => names,
        Err(error) => return Some(failed("ipsets of ipvs mode may still be there").idle().because(error)),
    };
    let failures =
        names.iter().filter(|name| name.starts_with(IPSETS)).filter_map(|name| ipset::destroy(name).err());
    // All are tried.
    let last = failures.fold(None, |_, error| Some(error))?;
    Some(failed("ipsets of ipvs mode are still there").idle().because(last))
}

fn failed(what: &str) -> Leftover {
    Leftover::new(NAME, what)
}
