//! Removes what mode ipvs leaves, ours or another kube-proxy's: virtual servers, routes, rules, the device, ipsets. Chains
//! of iptables that another one left are mostly those of iptables mode and go with them.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use kernel::conntrack::{Conntrack, ConntrackError, Filter, Flow, status};
use kernel::ipvs::{self, Batch, DumpedServer, Protocol, Transport, VirtualServer};
use kernel::{ipset, link::Links};

use super::servers::OURS;
use super::{DEVICE, NAME, NODE_PORTS, ground};
use crate::backend::SyncError;
use crate::leftovers::{Leftover, Removal, Search};

/// The ipsets that another kube-proxy makes in this mode; those of IPv6 begin with `KUBE-6-`. Network policies have sets
/// whose names begin with `KUBE-`, too.
const IPSETS: [&str; 17] = [
    "LOOP-BACK",
    "CLUSTER-IP",
    "EXTERNAL-IP",
    "EXTERNAL-IP-LOCAL",
    "LOAD-BALANCER",
    "LOAD-BALANCER-FW",
    "LOAD-BALANCER-LOCAL",
    "LOAD-BALANCER-SOURCE-IP",
    "LOAD-BALANCER-SOURCE-CIDR",
    "NODE-PORT-TCP",
    "NODE-PORT-UDP",
    "NODE-PORT-LOCAL-TCP",
    "NODE-PORT-LOCAL-UDP",
    "NODE-PORT-SCTP-HASH",
    "NODE-PORT-LOCAL-SCTP-HASH",
    "HEALTH-CHECK-NODE-PORT",
    "IPVS-IPS",
];

fn is_upstreams(set: &str) -> bool {
    let name = set.strip_prefix("KUBE-6-").or_else(|| set.strip_prefix("KUBE-"));
    // The kernel allows 31 characters, of which the prefix for IPv6 leaves 24.
    name.is_some_and(|name| IPSETS.iter().any(|known| *known == name || known.get(..24) == Some(name)))
}
/// Open connections end with their virtual server. Short ones get this long to end by themselves; `--cleanup`, for which
/// somebody waits, gives them less.
const DRAIN: Duration = Duration::from_secs(10);
const DRAIN_OF_CLEANUP: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

pub(super) fn remove(search: Search) -> Removal {
    let mut removal = Removal::default();
    if search == Search::WhereSeen && !ground::has_device() {
        return removal;
    }
    let patience = match search {
        Search::Everywhere => DRAIN_OF_CLEANUP,
        Search::WhereSeen => DRAIN,
    };
    let gone = remove_servers(patience).unwrap_or_else(|error| {
        removal.left.push(failed("virtual servers of ipvs mode may still be there").because(error));
        Vec::new()
    });
    removal.had_some |= !gone.is_empty();
    match ground::clear() {
        Ok(had_some) => removal.had_some |= had_some,
        Err(error) => {
            let what = format!("the device {DEVICE}, routes or rules of ipvs mode may still be there");
            removal.left.push(failed(&what).because(error));
        }
    }
    if let Err(error) = forget_flows(&gone) {
        let what = "flows that began in ipvs mode may hang until their clients use another port";
        removal.left.push(failed(what).because(error));
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
        // All are tried: one may have gone meanwhile.
        let failures = addresses.iter().filter_map(|net| links.delete_address(DEVICE, *net).err());
        match failures.fold(None, |_, error| Some(error)) {
            Some(error) if !ground::addresses_on_device(&mut links)?.is_empty() => Err(error),
            _ => Ok(addresses.len()),
        }
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
fn remove_servers(patience: Duration) -> Result<Vec<VirtualServer>, SyncError> {
    let Some(mut servers) = ipvs::Connection::open_if_loaded()? else { return Ok(Vec::new()) };
    let prefixes = ground::local_prefixes()?;
    let own: Vec<IpAddr> = Links::open()?.addresses()?.iter().map(|one| one.ip()).collect();
    let found = servers.services()?;
    let going: Vec<VirtualServer> = found
        .iter()
        .filter(|found| is_kube_proxys(found, &prefixes, &own))
        .map(|found| found.server)
        .collect();
    drain(&mut servers, &going, Instant::now() + patience)?;
    let mut batch = Batch::new();
    for server in &going {
        batch.delete_service(*server);
    }
    servers.commit(&batch)?;
    Ok(going)
}

/// A recorded flow is not redirected again, and one that IPVS redirected is not recorded as such: rules of another mode
/// would let its next packet pass to an address that nobody has. A connection that is cut off is reset this way, and a
/// handshake begins again.
fn forget_flows(gone: &[VirtualServer]) -> Result<(), ConntrackError> {
    let gone = Recorded::new(gone);
    for protocol in gone.protocols() {
        let filter = Filter { protocol: Some(protocol), ..Filter::default() };
        Conntrack::open()?.delete_where(&filter, |flow| gone.has(flow))?;
    }
    Ok(())
}

/// Flows that conntrack recorded on their way to some virtual servers.
struct Recorded(HashSet<(u8, IpAddr, u16)>);

impl Recorded {
    fn new(to: &[VirtualServer]) -> Recorded {
        Recorded(to.iter().map(|server| (server.protocol.number(), server.address, server.port)).collect())
    }

    fn protocols(&self) -> BTreeSet<u8> {
        self.0.iter().map(|(protocol, ..)| *protocol).collect()
    }

    /// Not if rules redirected it, as those of another mode do.
    fn has(&self, flow: &Flow) -> bool {
        let to = (flow.protocol, flow.original.dst, flow.original.dport);
        flow.status & status::DST_NAT == 0 && self.0.contains(&to)
    }

    /// Whether a TCP handshake is under way. One that cannot be seen is not waited for.
    fn has_handshake(&self) -> bool {
        let filter = Filter { protocol: Some(Protocol::Tcp.number()), ..Filter::default() };
        let mut found = false;
        let listed = Conntrack::dump(&filter, |flow| {
            found = flow.is_in_handshake() && self.has(flow);
            if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        listed.is_ok() && found
    }
}

/// Wait until no connection is open. New ones are refused meanwhile, unless rules lead them elsewhere already, as those
/// of another mode do. A flow of UDP has no end that IPVS sees.
fn drain<T: Transport>(servers: &mut T, going: &[VirtualServer], until: Instant) -> Result<(), ipvs::Error> {
    if going.is_empty() {
        return Ok(());
    }
    // The first packet of a connection may have passed the rules before they changed and be on its way to IPVS still.
    std::thread::sleep(BETWEEN_LOOKS);
    // IPVS counts a connection as active only when its handshake is over.
    let recorded = Recorded::new(going);
    while recorded.has_handshake() && Instant::now() < until {
        std::thread::sleep(BETWEEN_LOOKS);
    }
    let mut busy: Vec<VirtualServer> = Vec::new();
    for server in going.iter().filter(|server| server.protocol != Protocol::Udp) {
        let found = servers.destinations(*server)?;
        if found.iter().any(|one| one.active > 0) {
            let mut batch = Batch::new();
            for one in &found {
                batch.set_destination(*server, one.destination, 0);
            }
            // One that has just gone needs no weight.
            servers.commit(&batch)?;
            busy.push(*server);
        }
    }
    while !busy.is_empty() && Instant::now() < until {
        std::thread::sleep(BETWEEN_LOOKS);
        let mut still = Vec::new();
        for server in busy {
            if servers.destinations(server)?.iter().any(|one| one.active > 0) {
                still.push(server);
            }
        }
        busy = still;
    }
    Ok(())
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
        names.iter().filter(|name| is_upstreams(name)).filter_map(|name| ipset::destroy(name).err());
    // All are tried.
    let last = failures.fold(None, |_, error| Some(error))?;
    Some(failed("ipsets of ipvs mode are still there").idle().because(last))
}

fn failed(what: &str) -> Leftover {
    Leftover::new(NAME, what)
}
