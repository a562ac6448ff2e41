//! One endpoint as the plan sees it: may it be used, is it here, whom is it meant for.

use std::net::IpAddr;

use super::PlannedEndpoint;
use super::choice::NotUsed;
use crate::topology::Nearness;
use crate::{Endpoint, Family, NodeView};

/// A usable endpoint. The order of the fields is the order of preference among duplicates of one address and port, so
/// that merging slices does not depend on the order in which they arrived.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    pub(super) ip: IpAddr,
    /// Where it listens, as an index into a sorted list of ports: many service ports share their candidates, and differ
    /// in that list alone.
    pub(super) rank: u16,
    pub(super) standing: Standing,
    pub(super) place: Place,
    pub(super) near: Nearness,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    Ready,
    /// Going away but still answering: better than nothing where nothing is ready.
    Terminating,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Here,
    /// Slices need not name a node.
    Unknown,
    Elsewhere,
}

impl Candidate {
    /// The error says why it is none.
    pub(super) fn of(endpoint: &Endpoint<'_>, node: &NodeView, family: Family) -> Result<Candidate, NotUsed> {
        if Family::of(endpoint.ip) != family {
            return Err(NotUsed::OtherFamily);
        }
        if !can_be_host(endpoint.ip) {
            return Err(NotUsed::BadAddress);
        }
        Ok(Candidate {
            ip: endpoint.ip,
            rank: 0,
            standing: Standing::of(endpoint).ok_or(NotUsed::NotReady)?,
            place: Place::of(endpoint, node),
            near: Nearness::of(endpoint.hints, node),
        })
    }

    /// The endpoint at the port of its rank. Clients may be pods of this node, or of any.
    pub(super) fn backend(&self, ports: &[u16], from_anywhere: bool) -> PlannedEndpoint {
        let port = ports.get(usize::from(self.rank)).copied().unwrap_or_default();
        let may_be_own_client = from_anywhere || self.place != Place::Elsewhere;
        PlannedEndpoint { ip: self.ip, port, may_be_own_client }
    }
}

/// Whether connections can be sent to the address at all. The apiserver refuses unspecified addresses, a manifest does
/// not; neither refuses all of the others.
fn can_be_host(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !ip.is_multicast() && !ip.is_broadcast() && ip.octets()[0] != 0,
        IpAddr::V6(ip) => !ip.is_multicast() && !ip.is_unspecified(),
    }
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
