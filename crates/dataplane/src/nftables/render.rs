//! From a service's plan to the elements it owns. Pure: no decision about packets is made here.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::rc::Rc;

use model::{Address, Backend, Destination, Pool, PortPlan, Protocol, Routing, ServicePlan, Verdict};

use super::bytes::Fields;
use super::class::{Class, Kind, kind_of};
use super::element::{Data, Element};
use super::layout::writing_chain;
use super::sets::{Door, SetName, counting, permanent};
use super::{counting_rules, meter};

/// The elements of one service, sorted by set and key, without duplicates.
pub(crate) fn render(service: &str, plan: &ServicePlan, count_traffic: bool) -> Vec<Element> {
    let mut out = Vec::new();
    if let Some(ip) = plan.cluster_ip {
        out.push(Element {
            set: SetName::ClusterIps,
            key: Fields::new().ip(ip),
            data: Data::None,
            label: None,
        });
    }
    for port in &plan.ports {
        let label: Rc<str> = match &*port.name {
            "" => service.into(),
            name => format!("{service}:{name}").into(),
        };
        for destination in &port.destinations {
            DestinationRenderer::new(plan, port, destination, &label, &mut out).render();
        }
        if count_traffic {
            meter::render(service, port, &mut out);
        }
    }
    out.sort_unstable_by(Element::order);
    out.dedup_by(|a, b| a.place() == b.place());
    out
}

struct DestinationRenderer<'a> {
    plan: &'a ServicePlan,
    port: &'a PortPlan,
    destination: &'a Destination,
    label: &'a Rc<str>,
    door: Door,
    key: Fields,
    out: &'a mut Vec<Element>,
}

impl<'a> DestinationRenderer<'a> {
    fn new(
        plan: &'a ServicePlan,
        port: &'a PortPlan,
        destination: &'a Destination,
        label: &'a Rc<str>,
        out: &'a mut Vec<Element>,
    ) -> Self {
        let (door, key) = destination_key(destination.at, port.protocol);
        DestinationRenderer { plan, port, destination, label, door, key, out }
    }

    fn render(&mut self) {
        for route in routes(self.plan, self.port, self.destination).into_iter().flatten() {
            match route {
                Route::Forward { map, class, pool } => self.forward(map, class, pool),
                Route::Answer(set) => self.push_labelled(set, Data::None),
            }
        }
        self.affinity();
        self.firewall();
    }

    fn forward(&mut self, map: SetName, class: Class, pool: Pool) {
        self.push_labelled(map, Data::Goto(class));
        for (slot, backend) in self.port.pool(pool).iter().enumerate() {
            let key = self.key.slot(slot as u32);
            self.push(class.pool(), key, Data::Endpoint(endpoint(backend)));
            if backend.may_be_own_client {
                let hairpin = Fields::new().ip(backend.ip).ip(backend.ip);
                let hairpin = hairpin.protocol(self.port.protocol.number()).port(backend.port);
                self.push(SetName::Hairpin, hairpin, Data::None);
            }
        }
    }

    /// Which endpoints a pin of this destination may name: the union of its pools.
    fn affinity(&mut self) {
        let Some(seconds) = self.plan.affinity_seconds else { return };
        let pools = pools_of(self.destination.routing);
        let mut any = false;
        for backend in pools.into_iter().flatten().flat_map(|pool| self.port.pool(pool)) {
            any = true;
            let key = self.key.append(&endpoint(backend));
            self.push(SetName::Members(self.door, seconds), key, Data::None);
        }
        if any {
            self.push(SetName::Affine(self.door), self.key, Data::None);
        }
    }

    fn firewall(&mut self) {
        let Some(sources) = &self.destination.allowed_sources else { return };
        self.push_labelled(SetName::Firewall, Data::None);
        for net in sources {
            let key = self.key.ip(net.network());
            self.push(SetName::FirewallAllow(net.prefix_len()), key, Data::None);
        }
    }

    fn push(&mut self, set: SetName, key: Fields, data: Data) {
        self.out.push(Element { set, key, data, label: None });
    }

    fn push_labelled(&mut self, set: SetName, data: Data) {
        self.out.push(Element { set, key: self.key, data, label: Some(self.label.clone()) });
    }
}

/// What one kind of client meets at a destination.
enum Route {
    /// Forwarded: found in `map`, handled by `class`, drawn from `pool`.
    Forward { map: SetName, class: Class, pool: Pool },
    /// Rejected or dropped, by membership in this set.
    Answer(SetName),
}

fn routes(plan: &ServicePlan, port: &PortPlan, destination: &Destination) -> [Option<Route>; 2] {
    let (door, _) = destination_key(destination.at, port.protocol);
    let affine = plan.affinity_seconds.is_some();
    let route = |verdict, map, kind| match verdict {
        Verdict::Forward(pool) => {
            let class = Class { door, kind, affine, size: port.pool(pool).len() as u32 };
            Some(Route::Forward { map, class, pool })
        }
        Verdict::Reject => Some(Route::Answer(SetName::Reject(door))),
        Verdict::Drop => Some(Route::Answer(SetName::Drop(door))),
    };
    match destination.routing {
        Routing::Same(verdict, masquerade) => {
            [route(verdict, SetName::Service(door), kind_of(masquerade)), None]
        }
        Routing::Split { outside, inside } => [
            route(outside, SetName::Local(door), Kind::Plain),
            route(inside, SetName::Internal(door), Kind::Internal),
        ],
    }
}

/// What plans need besides elements: chains, sets and rules of a small, shared number.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Demands {
    pub(crate) classes: BTreeSet<Class>,
    pub(crate) timeouts: BTreeSet<u32>,
    pub(crate) prefix_lengths: BTreeSet<u8>,
    /// Maps, chains and rules that count traffic.
    pub(crate) counting: bool,
}

impl Demands {
    /// The names of all sets there will be.
    pub(crate) fn sets(&self) -> HashSet<String> {
        let members = self.timeouts.iter().flat_map(|seconds| Door::BOTH.map(|door| (door, *seconds)));
        let members = members.map(|(door, seconds)| SetName::Members(door, seconds));
        let ranges = self.prefix_lengths.iter().map(|length| SetName::FirewallAllow(*length));
        let counting = counting().filter(|_| self.counting);
        permanent()
            .into_iter()
            .chain(members)
            .chain(ranges)
            .chain(counting)
            .map(|set| set.name().into_owned())
            .collect()
    }

    /// The names of the chains that come on demand, with those that they go to.
    pub(crate) fn chains(&self) -> HashSet<String> {
        let mut names = HashSet::new();
        for class in &self.classes {
            names.extend(std::iter::successors(Some(*class), Class::next).map(|class| class.name()));
        }
        for seconds in &self.timeouts {
            names.extend(Door::BOTH.map(|door| writing_chain(door, *seconds)));
        }
        names.extend(counting_rules::CHAINS.iter().filter(|_| self.counting).map(|name| (*name).to_owned()));
        names
    }

    pub(crate) fn add(&mut self, plan: &ServicePlan) {
        for port in &plan.ports {
            for destination in &port.destinations {
                for route in routes(plan, port, destination).into_iter().flatten() {
                    if let Route::Forward { class, .. } = route {
                        self.classes.insert(class);
                        self.timeouts.extend(plan.affinity_seconds);
                    }
                }
                let sources = destination.allowed_sources.iter().flatten();
                self.prefix_lengths.extend(sources.map(|net| net.prefix_len()));
            }
        }
    }
}

/// The pools that a destination's clients may be sent to.
pub(crate) fn pools_of(routing: Routing) -> [Option<Pool>; 2] {
    let pool = |verdict| match verdict {
        Verdict::Forward(pool) => Some(pool),
        Verdict::Reject | Verdict::Drop => None,
    };
    match routing {
        Routing::Same(verdict, _) => [pool(verdict), None],
        Routing::Split { outside, inside } => [pool(outside), pool(inside)],
    }
}

/// The endpoints that every pool of the destination has, so that they are right for any kind of client.
pub(crate) fn in_every_pool(port: &PortPlan, routing: Routing) -> HashSet<(IpAddr, u16)> {
    let endpoints = |pool| port.pool(pool).iter().map(|backend| (backend.ip, backend.port));
    let mut pools = pools_of(routing).into_iter().flatten();
    let mut common: HashSet<_> = pools.next().into_iter().flat_map(endpoints).collect();
    for pool in pools {
        let others: HashSet<_> = endpoints(pool).collect();
        common.retain(|endpoint| others.contains(endpoint));
    }
    common
}

/// How a destination is keyed, and its key.
pub(crate) fn destination_key(at: Address, protocol: Protocol) -> (Door, Fields) {
    match at {
        Address::Vip(ip, port) => (Door::Vip, Fields::new().ip(ip).protocol(protocol.number()).port(port)),
        Address::NodePort(port) => (Door::NodePort, Fields::new().protocol(protocol.number()).port(port)),
    }
}

/// An endpoint as the data of a slot or a pin.
pub(crate) fn endpoint(backend: &Backend) -> Fields {
    Fields::new().ip(backend.ip).port(backend.port)
}
