//! From a service's plan to the elements it owns. Pure: no decision about packets is made here.
//!
//! A service is rendered port by port: a port that did not change costs nothing. What stands in a pool of a port's own
//! is rendered apart (see [`super::own_pool`]), because it is compared slot by slot.

use std::collections::HashSet;
use std::net::IpAddr;
use std::rc::Rc;

use model::{
    Address, Destination, PlannedEndpoint, Pool, PortPlan, Protocol, Role, Routing, ServicePlan, Verdict,
};

use crate::bytes::Fields;
use crate::class::{Class, Draw, Kind, kind_of};
use crate::element::{Data, Element};
use crate::layout::TableSetup;
use crate::meter::{self, Counting};
use crate::pinning::{Members, Pinning};
use crate::pool::{OwnPools, pin_seconds};
use crate::sets::{Door, SetName};

/// One port of a service, and what of the service it depends on.
pub struct RenderedPort<'a> {
    service: &'a str,
    pub port: &'a PortPlan,
    /// How long pins of it last, if clients are pinned.
    pub seconds: Option<u32>,
    pub own: OwnPools,
    /// Of each own pool the endpoint that stands in for a slot that is gone: always the same, whatever the order.
    stand_ins: [Option<PlannedEndpoint>; 2],
    counting: Counting,
    /// IPVS picks its endpoints, except for pods of this node that call it by an address of policy Local.
    by_ipvs: bool,
}

/// The element that belongs to the service itself and to none of its ports.
pub(crate) fn of_service(plan: &ServicePlan) -> Option<Element> {
    let key = Fields::new().ip(plan.cluster_ip?);
    Some(Element { set: SetName::ClusterIps, key, data: Data::None, label: None })
}

impl<'a> RenderedPort<'a> {
    pub fn new(service: &'a str, port: &'a PortPlan, setup: &TableSetup) -> RenderedPort<'a> {
        let by_ipvs = !setup.picks_for(port);
        let is_split = |at: &Destination| matches!(at.routing, Routing::Split { .. });
        let drawn = match by_ipvs {
            true => [port.destinations.iter().any(is_split), false],
            false => [true; 2],
        };
        let own = OwnPools::of(service, port, drawn);
        let stand_ins =
            Pool::BOTH.map(|pool| own.get(pool).and_then(|_| port.pool(pool).iter().min().copied()));
        let (seconds, counting) = (pin_seconds(port), setup.counting);
        RenderedPort { service, port, seconds, own, stand_ins, counting, by_ipvs }
    }

    /// The elements of the port but those of its own pools; sorted by set and key, without duplicates.
    pub fn common(&self) -> Vec<Element> {
        self.elements_of(&self.port.destinations)
    }

    /// The same for some of its destinations, which a port may have very many of.
    pub fn elements_of(&self, destinations: &[Destination]) -> Vec<Element> {
        let mut out = Vec::new();
        let label: Rc<str> = match &*self.port.name {
            "" => self.service.into(),
            name => format!("{}:{name}", self.service).into(),
        };
        for destination in destinations {
            DestinationRenderer::new(self, destination, &label, &mut out).render();
        }
        meter::render(self.service, self.port, destinations, self.counting, &mut out);
        out.sort_unstable_by(Element::order);
        out.dedup_by(|a, b| a.place() == b.place());
        out
    }

    /// What each kind of client meets at a destination.
    pub fn routes(&self, destination: &Destination) -> impl Iterator<Item = Route> + use<> {
        let (door, _) = destination_key(destination.at, self.port.protocol);
        let affine = self.seconds.is_some();
        let by_ipvs = self.by_ipvs;
        let route = |verdict, map, kind| match verdict {
            Verdict::Forward(pool) if by_ipvs && kind != Kind::Internal => Some(Route::Ipvs { kind, pool }),
            Verdict::Forward(pool) => {
                let draw = match self.own.get(pool) {
                    Some(own) => Draw::Own(own),
                    None => Draw::Common(self.port.pool(pool).len() as u32),
                };
                Some(Route::Forward { map, class: Class::new(door, kind, affine, draw), pool })
            }
            Verdict::Reject => Some(Route::Answer(SetName::Reject(door))),
            Verdict::Drop => Some(Route::Answer(SetName::Drop(door))),
        };
        let routes = match destination.routing {
            Routing::Same(verdict, masquerade) => {
                [route(verdict, SetName::Service(door), kind_of(masquerade)), None]
            }
            Routing::Split { outside, inside } => [
                route(outside, SetName::Local(door), Kind::Plain),
                route(inside, SetName::Internal(door), Kind::Internal),
            ],
        };
        routes.into_iter().flatten()
    }

    /// Where new connections to a destination are recorded; `None` if no client is pinned there.
    pub fn pinning(&self, destination: &Destination) -> Option<Pinning> {
        let seconds = self.seconds?;
        let pools = self.pinned_pools(destination);
        let first = pools.into_iter().flatten().next()?;
        let (door, _) = destination_key(destination.at, self.port.protocol);
        let members = match self.own.get(first) {
            None => Members::Common,
            Some(own) => {
                Members::Own { port: own.port, pools: Pool::BOTH.map(|pool| pools.contains(&Some(pool))) }
            }
        };
        Some(Pinning { door, seconds, members })
    }
}

impl RenderedPort<'_> {
    /// The pools that clients of the destination are sent to by rules, and with that by pins.
    fn pinned_pools(&self, destination: &Destination) -> [Option<Pool>; 2] {
        let pools = destination.routing.pools();
        match destination.routing {
            // IPVS pins its clients itself.
            Routing::Same(..) if self.by_ipvs => [None; 2],
            Routing::Split { .. } if self.by_ipvs => [None, pools[1]],
            _ => pools,
        }
    }
}

struct DestinationRenderer<'a> {
    rendered: &'a RenderedPort<'a>,
    destination: &'a Destination,
    label: &'a Rc<str>,
    door: Door,
    key: Fields,
    out: &'a mut Vec<Element>,
}

impl<'a> DestinationRenderer<'a> {
    fn new(
        rendered: &'a RenderedPort<'a>,
        destination: &'a Destination,
        label: &'a Rc<str>,
        out: &'a mut Vec<Element>,
    ) -> Self {
        let (door, key) = destination_key(destination.at, rendered.port.protocol);
        DestinationRenderer { rendered, destination, label, door, key, out }
    }

    fn render(&mut self) {
        for route in self.rendered.routes(self.destination) {
            match route {
                Route::Forward { map, class, pool } => self.forward(map, class, pool),
                Route::Ipvs { kind, pool } => self.lead_to_ipvs(kind, pool),
                Route::Answer(set) => {
                    self.push_labelled(set, Data::None);
                    // The first packet of a connection is answered before IPVS; those that are open may still drain.
                    if self.rendered.by_ipvs {
                        self.make_local();
                    }
                }
            }
        }
        self.affinity();
        self.firewall();
    }

    fn forward(&mut self, map: SetName, class: Class, pool: Pool) {
        self.push_labelled(map, Data::Goto(class));
        let backends = self.rendered.port.pool(pool);
        if let Draw::Own(_) = class.draw {
            // For a packet that loses its slot to a commit: see the chain `slot-zero`.
            let stand_in = self.rendered.stand_ins[pool as usize].filter(|_| class.kind != Kind::Internal);
            if let Some(backend) = stand_in {
                self.push(
                    SetName::Endpoints(self.door),
                    self.key.slot(0),
                    Data::Endpoint(endpoint(&backend)),
                );
            }
            return;
        }
        for (slot, backend) in backends.iter().enumerate() {
            let key = self.key.slot(slot as u32);
            self.push(class.pool(), key, Data::Endpoint(endpoint(backend)));
            if let Some(key) = hairpin(self.rendered.port.protocol, backend) {
                self.push(SetName::Hairpin, key, Data::None);
            }
        }
    }

    /// Packets for a cluster IP or a port of the node get there by themselves.
    fn lead_to_ipvs(&mut self, kind: Kind, pool: Pool) {
        if kind == Kind::Masquerade {
            self.push_labelled(SetName::Masquerade(self.door), Data::None);
        }
        self.make_local();
        let protocol = self.rendered.port.protocol;
        for key in self.rendered.port.pool(pool).iter().filter_map(|at| hairpin(protocol, at)) {
            self.push(SetName::Hairpin, key, Data::None);
        }
    }

    /// An external address is not the node's.
    fn make_local(&mut self) {
        if matches!(self.destination.role, Role::ExternalIp | Role::LoadBalancerIp) {
            self.push_labelled(SetName::Ipvs, Data::None);
        }
    }

    /// Which endpoints a pin of this destination may name: the union of its pools.
    fn affinity(&mut self) {
        let Some(pinning) = self.rendered.pinning(self.destination) else { return };
        self.push(SetName::Affine(self.door), self.key, Data::Pin(pinning));
        if pinning.members != Members::Common {
            return;
        }
        let pools = self.rendered.pinned_pools(self.destination);
        for backend in pools.into_iter().flatten().flat_map(|pool| self.rendered.port.pool(pool)) {
            let key = self.key.append(&endpoint(backend));
            self.push(SetName::Members(self.door), key, Data::None);
        }
    }

    fn firewall(&mut self) {
        if self.destination.allowed_sources.is_none() {
            return;
        }
        self.push_labelled(SetName::Firewall, Data::None);
        for net in self.destination.sources() {
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
pub enum Route {
    /// Forwarded: found in `map`, handled by `class`, drawn from `pool`.
    Forward { map: SetName, class: Class, pool: Pool },
    /// Left to IPVS.
    Ipvs { kind: Kind, pool: Pool },
    /// Rejected or dropped, by membership in this set.
    Answer(SetName),
}

/// The endpoints that every pool of the destination has, so that they are right for any kind of client.
pub(crate) fn in_every_pool(port: &PortPlan, routing: Routing) -> HashSet<(IpAddr, u16)> {
    let endpoints = |pool| port.pool(pool).iter().map(|backend| (backend.ip, backend.port));
    let mut pools = routing.pools().into_iter().flatten();
    let mut common: HashSet<_> = pools.next().into_iter().flat_map(endpoints).collect();
    for pool in pools {
        let others: HashSet<_> = endpoints(pool).collect();
        common.retain(|endpoint| others.contains(endpoint));
    }
    common
}

/// How a destination is keyed, and its key.
pub fn destination_key(at: Address, protocol: Protocol) -> (Door, Fields) {
    match at {
        Address::Vip(ip, port) => (Door::Vip, Fields::new().ip(ip).protocol(protocol.number()).port(port)),
        Address::NodePort(port) => (Door::NodePort, Fields::new().protocol(protocol.number()).port(port)),
    }
}

/// An endpoint as the data of a slot or a pin.
pub(crate) fn endpoint(backend: &PlannedEndpoint) -> Fields {
    Fields::new().ip(backend.ip).port(backend.port)
}

/// The key by which an endpoint is known as a possible client of itself.
pub(crate) fn hairpin(protocol: Protocol, backend: &PlannedEndpoint) -> Option<Fields> {
    let key = || Fields::new().ip(backend.ip).ip(backend.ip).protocol(protocol.number()).port(backend.port);
    backend.may_be_own_client.then(key)
}
