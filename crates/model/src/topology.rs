//! Same node, then same zone, then everywhere: which endpoints topology hints leave.
//!
//! A kind of hint counts only if every ready endpoint carries it and at least one names this node (or its
//! zone): half-written hints must not starve the endpoints that have none. So a [`Reach`] never empties a pool.

use crate::{Hints, NodeView};

/// What the hints of one kind on one endpoint say to this node. The order is that of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Aim {
    Here,
    Elsewhere,
    Unsaid,
}

impl Aim {
    fn of(named: &[Box<str>], mine: Option<&str>) -> Aim {
        match mine {
            _ if named.is_empty() => Aim::Unsaid,
            Some(mine) if named.iter().any(|name| **name == *mine) => Aim::Here,
            _ => Aim::Elsewhere,
        }
    }
}

/// An endpoint's hints as seen from this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Nearness {
    node: Aim,
    zone: Aim,
}

impl Nearness {
    pub(crate) fn of(hints: Option<&Hints>, node: &NodeView) -> Nearness {
        match hints {
            None => Nearness { node: Aim::Unsaid, zone: Aim::Unsaid },
            Some(hints) => Nearness {
                node: Aim::of(&hints.nodes, Some(&node.name)),
                zone: Aim::of(&hints.zones, node.zone.as_deref()),
            },
        }
    }
}

/// How far traffic of this node has to travel for an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Node,
    Zone,
    Everywhere,
}

impl Reach {
    /// The shortest reach that the hints on all ready endpoints agree on.
    pub(crate) fn shortest(ready: impl Iterator<Item = Nearness> + Clone) -> Reach {
        if agreed(ready.clone().map(|near| near.node)) {
            Reach::Node
        } else if agreed(ready.map(|near| near.zone)) {
            Reach::Zone
        } else {
            Reach::Everywhere
        }
    }

    pub(crate) fn admits(self, near: Nearness) -> bool {
        match self {
            Reach::Node => near.node == Aim::Here,
            Reach::Zone => near.zone == Aim::Here,
            Reach::Everywhere => true,
        }
    }
}

/// Every endpoint says something, and one of them means us.
fn agreed(mut aims: impl Iterator<Item = Aim>) -> bool {
    let mut here = false;
    aims.all(|aim| {
        here |= aim == Aim::Here;
        aim != Aim::Unsaid
    }) && here
}
