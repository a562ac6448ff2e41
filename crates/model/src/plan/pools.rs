//! Which endpoints stand behind one service port: for traffic of policy Cluster and of policy Local.

use std::net::IpAddr;

use super::Backend;
use crate::topology::{Nearness, Reach};
use crate::{Endpoint, EndpointSlice, Family, NodeView, Protocol, ServicePort};

/// What the slices of a service offer in one family. They are read once, however many ports ask.
pub(super) struct Offers<'a> {
    /// Every port of every slice, sorted.
    ports: Vec<Offer<'a>>,
    /// The usable endpoints of each slice, sorted.
    slices: Vec<Vec<Candidate>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Offer<'a> {
    name: &'a str,
    protocol: Protocol,
    /// Index into [`Offers::slices`].
    slice: usize,
    port: u16,
}

/// The usable endpoints of one service port on any node, sorted, one per address and port.
pub(super) struct Usable(Vec<Candidate>);

/// The order of the fields is the order of preference among duplicates of one address and port, so that
/// merging slices does not depend on the order in which they arrived.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    ip: IpAddr,
    port: u16,
    standing: Standing,
    place: Place,
    near: Nearness,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Ready,
    /// Going away but still answering: better than nothing where nothing is ready.
    Terminating,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Here,
    /// Slices need not name a node.
    Unknown,
    Elsewhere,
}

impl Place {
    fn of(endpoint: &Endpoint<'_>, node: &NodeView) -> Place {
        match endpoint.node {
            Some(name) if name == node.name => Place::Here,
            Some(_) => Place::Elsewhere,
            None => Place::Unknown,
        }
    }
}

impl Standing {
    fn of(endpoint: &Endpoint<'_>) -> Option<Standing> {
        match endpoint {
            Endpoint { ready: true, .. } => Some(Standing::Ready),
            Endpoint { serving: true, terminating: true, .. } => Some(Standing::Terminating),
            _ => None,
        }
    }
}

impl<'a> Offers<'a> {
    pub(super) fn of(slices: &'a [EndpointSlice<'a>], node: &NodeView, family: Family) -> Offers<'a> {
        let mut offers = Offers { ports: Vec::new(), slices: Vec::with_capacity(slices.len()) };
        for slice in slices {
            let mut usable: Vec<Candidate> =
                slice.endpoints.iter().filter_map(|endpoint| candidate(endpoint, node, family)).collect();
            if usable.is_empty() {
                continue;
            }
            usable.sort_unstable();
            let index = offers.slices.len();
            // Port 0 can come from a manifest; no endpoint listens there.
            let ports = slice.ports.iter().filter(|at| at.port != 0);
            offers.ports.extend(ports.map(|at| Offer {
                name: &at.name,
                protocol: at.protocol,
                slice: index,
                port: at.port,
            }));
            offers.slices.push(usable);
        }
        offers.ports.sort_unstable();
        offers
    }

    /// The usable endpoints of one service port.
    pub(super) fn usable(&self, port: &ServicePort) -> Usable {
        let wanted = (&*port.name, port.protocol);
        let first = self.ports.partition_point(|offer| (offer.name, offer.protocol) < wanted);
        let later = self.ports.get(first..).unwrap_or_default();
        let serving = later.iter().take_while(|offer| (offer.name, offer.protocol) == wanted);
        let mut found = Vec::new();
        for Offer { slice, port, .. } in serving {
            let endpoints = self.slices.get(*slice).into_iter().flatten();
            found.extend(endpoints.map(|candidate| Candidate { port: *port, ..*candidate }));
        }
        // A sorted run from each slice: the stable sort merges them.
        found.sort();
        found.dedup_by_key(|candidate| (candidate.ip, candidate.port));
        Usable(found)
    }
}

impl Usable {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The endpoints for policy Cluster: empty only if there is nothing usable anywhere. Clients may be pods of this
    /// node, or of any.
    pub(super) fn cluster_pool(&self, from_anywhere: bool) -> Box<[Backend]> {
        let backend = |candidate: &Candidate| candidate.backend(from_anywhere);
        let ready = self.0.iter().filter(|c| c.standing == Standing::Ready);
        if ready.clone().next().is_none() {
            return self.0.iter().map(backend).collect();
        }
        let reach = Reach::shortest(ready.clone().map(|c| c.near));
        ready.filter(|c| reach.admits(c.near)).map(backend).collect()
    }

    /// The endpoints for policy Local. Hints do not matter here: the node is as near as it gets.
    pub(super) fn local_pool(&self) -> Box<[Backend]> {
        let local = self.0.iter().filter(|c| c.place == Place::Here);
        let any_ready = local.clone().any(|c| c.standing == Standing::Ready);
        let pool = local.filter(|c| !any_ready || c.standing == Standing::Ready);
        pool.map(|c| c.backend(false)).collect()
    }
}

impl Candidate {
    fn backend(&self, from_anywhere: bool) -> Backend {
        let may_be_own_client = from_anywhere || self.place != Place::Elsewhere;
        Backend { ip: self.ip, port: self.port, may_be_own_client }
    }
}

/// An endpoint that may be used, before it is known at which port.
fn candidate(endpoint: &Endpoint<'_>, node: &NodeView, family: Family) -> Option<Candidate> {
    // The apiserver refuses unspecified addresses, a manifest does not.
    if Family::of(endpoint.ip) != family || endpoint.ip.is_unspecified() {
        return None;
    }
    Some(Candidate {
        ip: endpoint.ip,
        port: 0,
        standing: Standing::of(endpoint)?,
        place: Place::of(endpoint, node),
        near: Nearness::of(endpoint.hints, node),
    })
}
