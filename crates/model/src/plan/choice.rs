//! Which candidates of a service port are used, and why the others are not. Pools are made and explained by asking here,
//! so that an explanation cannot differ from what is done.

use super::candidate::{Candidate, Place, Standing};
use crate::topology::Reach;

/// Why an endpoint gets no traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NotUsed {
    OtherFamily,
    /// No connection can be sent to this address.
    BadAddress,
    /// Its slice has no port of the service port's name and protocol.
    NoSuchPort,
    /// Its slice has port 0.
    BadPort,
    NotReady,
    /// It still serves, but others are ready.
    Terminating,
    /// Topology hints mean it for other nodes.
    HintedToOtherNodes,
    /// Topology hints mean it for other zones.
    HintedToOtherZones,
    /// It is not on this node, and the policy is Local.
    OnOtherNode,
    /// Its slice does not say on which node it is, and the policy is Local.
    OnUnknownNode,
    /// The service asks for more than it may have.
    LeftOut,
}

/// What is decided over all candidates of a port together.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    any_ready: bool,
    any_local_ready: bool,
    reach: Reach,
}

impl Default for Choice {
    fn default() -> Choice {
        Choice { any_ready: false, any_local_ready: false, reach: Reach::Everywhere }
    }
}

impl Choice {
    pub(super) fn of(candidates: &[Candidate]) -> Choice {
        let ready = candidates.iter().filter(|one| one.standing == Standing::Ready);
        Choice {
            any_ready: ready.clone().next().is_some(),
            any_local_ready: ready.clone().any(|one| one.place == Place::Here),
            reach: Reach::shortest(ready.map(|one| one.near)),
        }
    }

    /// For traffic of policy Cluster.
    pub(super) fn cluster(&self, one: &Candidate) -> Result<(), NotUsed> {
        match self.reach {
            _ if !self.any_ready => Ok(()),
            _ if one.standing != Standing::Ready => Err(NotUsed::Terminating),
            reach if reach.admits(one.near) => Ok(()),
            Reach::Node => Err(NotUsed::HintedToOtherNodes),
            Reach::Zone | Reach::Everywhere => Err(NotUsed::HintedToOtherZones),
        }
    }

    /// For traffic of policy Local. Hints do not matter here: the node is as near as it gets.
    pub(super) fn local(&self, one: &Candidate) -> Result<(), NotUsed> {
        match one.place {
            Place::Elsewhere => Err(NotUsed::OnOtherNode),
            Place::Unknown => Err(NotUsed::OnUnknownNode),
            Place::Here if self.any_local_ready && one.standing != Standing::Ready => {
                Err(NotUsed::Terminating)
            }
            Place::Here => Ok(()),
        }
    }
}
