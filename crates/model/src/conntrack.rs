//! Which recorded flows are provably stale after a service's plan changed.
//!
//! The kernel keeps sending a recorded flow where its first packet went, however the rules change. UDP and SCTP
//! flows can live on that way for ever, and so does a TCP connection whose handshake never got an answer. This
//! module decides; it neither lists nor deletes anything.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::{Address, Pool, PortPlan, Protocol, ServicePlan, merged_ports};

#[cfg(test)]
mod tests;

/// Flows to one destination that must be forgotten, given as a test over recorded flows.
///
/// For TCP it may be asked about half-open flows only: an established connection ends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleFlows {
    pub protocol: Protocol,
    pub at: Address,
    doomed: Doomed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Doomed {
    /// The destination is ours and forwards to `live`: a flow rewritten to anything else is stale, and if
    /// `untouched`, so is one that was not rewritten.
    AllBut { live: Targets, untouched: bool },
    /// The destination forwards no more. Only flows to the endpoints it had are provably ours.
    To(Targets),
    /// Nothing is stale, but these endpoints are live again for those that still consider them stale.
    None { live: Targets },
}

/// Sorted and unique; shared by all destinations of a port.
type Targets = Arc<[(IpAddr, u16)]>;

type Key = (Protocol, Address);

/// Where a recorded flow's packets really go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowTarget {
    /// Rewritten to this endpoint.
    Endpoint(IpAddr, u16),
    /// Not rewritten: recorded while the destination had no endpoint.
    Untouched,
}

/// One flow as the kernel recorded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedFlow {
    pub protocol: Protocol,
    /// Where the client sent its packets.
    pub destination: IpAddr,
    pub port: u16,
    pub target: FlowTarget,
    /// TCP: the handshake has no answer yet (SYN_SENT). Means nothing for other protocols.
    pub half_open: bool,
}

impl StaleFlows {
    pub fn is_stale(&self, target: FlowTarget) -> bool {
        match (&self.doomed, target) {
            (Doomed::AllBut { live, .. }, FlowTarget::Endpoint(ip, port)) => !contains(live, (ip, port)),
            (Doomed::AllBut { untouched, .. }, FlowTarget::Untouched) => *untouched,
            (Doomed::To(gone), FlowTarget::Endpoint(ip, port)) => contains(gone, (ip, port)),
            (Doomed::To(_), FlowTarget::Untouched) | (Doomed::None { .. }, _) => false,
        }
    }

    /// Flows to these targets are not stale either: somebody there leads them on.
    pub fn spare(&mut self, targets: &[SocketAddr]) {
        if let Doomed::AllBut { live, .. } = &mut self.doomed {
            let spared = targets.iter().map(|at| (at.ip(), at.port()));
            *live = sorted(live.iter().copied().chain(spared).collect());
        }
    }

    /// Whether it asks for anything to be forgotten.
    pub fn asks_something(&self) -> bool {
        !matches!(self.doomed, Doomed::None { .. })
    }

    /// Whether it is the end of a destination, as far as its service goes.
    pub fn is_end(&self) -> bool {
        matches!(self.doomed, Doomed::To(_))
    }

    fn all_but((protocol, at): Key, live: Targets) -> StaleFlows {
        let untouched = untouched_is_stale(protocol, at, &live);
        StaleFlows { protocol, at, doomed: Doomed::AllBut { live, untouched } }
    }

    fn to((protocol, at): Key, gone: Targets) -> StaleFlows {
        StaleFlows { protocol, at, doomed: Doomed::To(gone) }
    }

    fn none((protocol, at): Key, live: Targets) -> StaleFlows {
        StaleFlows { protocol, at, doomed: Doomed::None { live } }
    }

    /// What holds for the same destination once `later` was found as well.
    fn followed_by(&mut self, later: StaleFlows) {
        match (&mut self.doomed, later.doomed) {
            // The later one knows all that the destination forwards to now.
            (earlier, newest @ Doomed::AllBut { .. }) => *earlier = newest,
            (Doomed::AllBut { live, .. }, Doomed::None { live: now }) => *live = now,
            (Doomed::To(gone), Doomed::None { live }) => {
                *gone = gone.iter().filter(|target| !contains(&live, **target)).copied().collect();
            }
            (earlier @ Doomed::None { .. }, newest) => *earlier = newest,
            (Doomed::To(gone), Doomed::To(more)) => {
                *gone = sorted(gone.iter().chain(more.iter()).copied().collect());
            }
            (Doomed::AllBut { live, .. }, Doomed::To(gone)) => {
                *live = live.iter().filter(|target| !contains(&gone, **target)).copied().collect();
            }
        }
    }
}

/// A flow that was not rewritten predates the endpoints, unless an endpoint listens at the destination itself:
/// then the rewrite changes nothing and cannot be seen. TCP flows that were not rewritten are not ours.
fn untouched_is_stale(protocol: Protocol, at: Address, live: &[(IpAddr, u16)]) -> bool {
    match (protocol, at) {
        (Protocol::Tcp, _) | (Protocol::Sctp, Address::NodePort(_)) => false,
        (_, Address::Vip(ip, port)) => !contains(live, (ip, port)),
        (Protocol::Udp, Address::NodePort(number)) => live.iter().all(|(_, port)| *port != number),
    }
}

/// Compare two plans of one service; either may be absent. What comes out includes destinations that only
/// grew ([`StaleFlows::asks_something`] is false): an endpoint that comes back before its flows were forgotten
/// must not lose new ones. Without an old one (the service is new, or the agent
/// is) only UDP and SCTP are judged.
pub fn stale_flows(old: Option<&ServicePlan>, new: Option<&ServicePlan>) -> Vec<StaleFlows> {
    if old == new {
        return Vec::new();
    }
    let tcp = old.is_some();
    // Ports that are as they were have nothing to say, and a large service has many.
    let changed = || changed_ports(old, new);
    let before: HashMap<Key, Targets> =
        changed().filter_map(|(old, _)| old).flat_map(|port| forwards(port, tcp)).collect();
    let after: HashMap<Key, Targets> =
        changed().filter_map(|(_, new)| new).flat_map(|port| forwards(port, tcp)).collect();
    let mut found = Vec::new();
    for (key, live) in &after {
        match before.get(key) {
            Some(had) if had == live => {}
            Some(had) if is_subset(had, live) => found.push(StaleFlows::none(*key, live.clone())),
            // At worst a half-open flow from before is forgotten, and its next SYN creates it again.
            None if key.0 == Protocol::Tcp => {}
            _ => found.push(StaleFlows::all_but(*key, live.clone())),
        }
    }
    let ended = before.into_iter().filter(|(key, _)| !after.contains_key(key));
    found.extend(ended.map(|(key, had)| StaleFlows::to(key, had)));
    found.sort_unstable_by_key(|flows| (flows.protocol, flows.at));
    found
}

/// The same with one entry for each destination, in the order in which they came. As with a [`StaleSet`], what a later plan
/// found goes on from what an earlier one did; but what only grew stays, for flows that others found before.
pub fn merge_stale(found: Vec<StaleFlows>) -> Vec<StaleFlows> {
    let mut places: HashMap<Key, usize> = HashMap::new();
    let mut merged: Vec<StaleFlows> = Vec::new();
    for flows in found {
        let place = *places.entry((flows.protocol, flows.at)).or_insert(merged.len());
        match merged.get_mut(place) {
            Some(earlier) => earlier.followed_by(flows),
            None => merged.push(flows),
        }
    }
    merged
}

fn changed_ports<'a>(
    old: Option<&'a ServicePlan>,
    new: Option<&'a ServicePlan>,
) -> impl Iterator<Item = (Option<&'a Arc<PortPlan>>, Option<&'a Arc<PortPlan>>)> {
    let old = old.map(|plan| &*plan.ports).unwrap_or_default();
    let new = new.map(|plan| &*plan.ports).unwrap_or_default();
    merged_ports(old, new).filter(|(old, new)| old != new)
}

/// The destinations of a port that forward, and to what; those of TCP only if they can matter.
fn forwards(port: &PortPlan, tcp: bool) -> impl Iterator<Item = (Key, Targets)> {
    let mut known: Vec<([bool; 2], Targets)> = Vec::new();
    let judged = if tcp || port.protocol != Protocol::Tcp { &*port.destinations } else { &[] };
    judged.iter().filter_map(move |destination| {
        let used = Pool::BOTH.map(|pool| destination.routing.forwards_to(pool));
        if used == [false, false] {
            return None;
        }
        let targets = match known.iter().find(|(pools, _)| *pools == used) {
            Some((_, targets)) => targets.clone(),
            None => {
                let targets = targets(port, used);
                known.push((used, targets.clone()));
                targets
            }
        };
        Some(((port.protocol, destination.at), targets))
    })
}

fn targets(port: &PortPlan, [cluster, local]: [bool; 2]) -> Targets {
    let cluster = cluster.then_some(&port.cluster_pool).into_iter().flatten();
    let local = local.then_some(&port.local_pool).into_iter().flatten();
    sorted(cluster.chain(local).map(|backend| (backend.ip, backend.port)).collect())
}

fn sorted(mut targets: Vec<(IpAddr, u16)>) -> Targets {
    // Two sorted runs: the stable sort merges them.
    targets.sort();
    targets.dedup();
    targets.into()
}

fn contains(targets: &[(IpAddr, u16)], target: (IpAddr, u16)) -> bool {
    targets.binary_search(&target).is_ok()
}

/// Both are sorted, so one walk over each is enough.
fn is_subset(some: &[(IpAddr, u16)], all: &[(IpAddr, u16)]) -> bool {
    let mut all = all.iter();
    some.iter().all(|target| all.find(|candidate| *candidate >= target) == Some(target))
}

/// What many services' changes left behind, ready to be asked about every flow of the kernel's table.
#[derive(Clone, Debug, Default)]
pub struct StaleSet {
    by_destination: HashMap<Key, StaleFlows>,
}

impl StaleSet {
    pub fn is_empty(&self) -> bool {
        self.by_destination.is_empty()
    }

    /// Add what a later plan (or another service) found.
    pub fn add(&mut self, flows: StaleFlows) {
        use std::collections::hash_map::Entry;
        match self.by_destination.entry((flows.protocol, flows.at)) {
            Entry::Vacant(free) if flows.asks_something() => {
                free.insert(flows);
            }
            Entry::Vacant(_) => {}
            Entry::Occupied(mut earlier) => earlier.get_mut().followed_by(flows),
        }
    }

    /// The test for flows to this address and port; `is_node_ip` tells whether it serves node ports.
    pub fn lookup(
        &self,
        protocol: Protocol,
        destination: IpAddr,
        port: u16,
        is_node_ip: impl FnOnce(IpAddr) -> bool,
    ) -> Option<&StaleFlows> {
        let at = |address| self.by_destination.get(&(protocol, address));
        let node_port = || at(Address::NodePort(port)).filter(|_| is_node_ip(destination));
        at(Address::Vip(destination, port)).or_else(node_port)
    }

    pub fn is_stale(&self, flow: &RecordedFlow, is_node_ip: impl FnOnce(IpAddr) -> bool) -> bool {
        let judged = flow.protocol != Protocol::Tcp || flow.half_open;
        judged
            && self
                .lookup(flow.protocol, flow.destination, flow.port, is_node_ip)
                .is_some_and(|flows| flows.is_stale(flow.target))
    }
}

impl Extend<StaleFlows> for StaleSet {
    fn extend<I: IntoIterator<Item = StaleFlows>>(&mut self, found: I) {
        found.into_iter().for_each(|flows| self.add(flows));
    }
}

impl FromIterator<StaleFlows> for StaleSet {
    fn from_iter<I: IntoIterator<Item = StaleFlows>>(found: I) -> StaleSet {
        let mut set = StaleSet::default();
        set.extend(found);
        set
    }
}
