//! Which endpoints stand behind one service port: for traffic of policy Cluster and of policy Local.

use std::net::IpAddr;

use super::Backend;
use crate::topology::{Nearness, Reach};
use crate::{Endpoint, EndpointSlice, Family, NodeView, ServicePort};

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

impl Usable {
    pub(super) fn find(
        slices: &[EndpointSlice<'_>],
        port: &ServicePort,
        node: &NodeView,
        family: Family,
    ) -> Usable {
        let mut found = Vec::new();
        for slice in slices {
            let serving = slice.ports.iter().filter(|at| {
                // Port 0 can come from a manifest; no endpoint listens there.
                at.port != 0 && at.protocol == port.protocol && at.name == port.name
            });
            for at in serving {
                found.extend(slice.endpoints.iter().filter_map(|e| candidate(e, at.port, node, family)));
            }
        }
        found.sort_unstable();
        found.dedup_by_key(|candidate| (candidate.ip, candidate.port));
        Usable(found)
    }

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

fn candidate(endpoint: &Endpoint<'_>, port: u16, node: &NodeView, family: Family) -> Option<Candidate> {
    // The apiserver refuses unspecified addresses, a manifest does not.
    if Family::of(endpoint.ip) != family || endpoint.ip.is_unspecified() {
        return None;
    }
    Some(Candidate {
        ip: endpoint.ip,
        port,
        standing: Standing::of(endpoint)?,
        place: Place::of(endpoint, node),
        near: Nearness::of(endpoint.hints, node),
    })
}
