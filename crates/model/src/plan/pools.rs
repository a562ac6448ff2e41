//! Which endpoints are left of those that stand behind a service port: for traffic of policy Cluster and of policy Local.

use std::borrow::Cow;

use super::PlannedEndpoint;
use super::candidate::{Candidate, Place, Standing};
use crate::topology::Reach;

/// What is left of some slices, whatever ports their endpoints listen on.
#[derive(Default)]
pub(super) struct Pools {
    /// Empty only if there is nothing usable anywhere.
    cluster: Vec<Candidate>,
    local: Vec<Candidate>,
}

/// What is left for one service port.
pub(super) struct Usable<'a> {
    pub(super) pools: &'a Pools,
    /// Where the endpoints listen, by rank.
    pub(super) ports: Cow<'a, [u16]>,
}

impl Pools {
    /// Of candidates that are sorted, one per address and port.
    pub(super) fn of(mut candidates: Vec<Candidate>) -> Pools {
        let local = local(&candidates);
        keep_nearest(&mut candidates);
        Pools { cluster: candidates, local }
    }
}

/// The endpoints for policy Local. Hints do not matter here: the node is as near as it gets.
fn local(candidates: &[Candidate]) -> Vec<Candidate> {
    let local = candidates.iter().filter(|c| c.place == Place::Here);
    let any_ready = local.clone().any(|c| c.standing == Standing::Ready);
    local.filter(|c| !any_ready || c.standing == Standing::Ready).copied().collect()
}

/// Leave the endpoints for policy Cluster.
fn keep_nearest(candidates: &mut Vec<Candidate>) {
    let ready = candidates.iter().filter(|c| c.standing == Standing::Ready);
    if ready.clone().next().is_none() {
        return;
    }
    let reach = Reach::shortest(ready.map(|c| c.near));
    candidates.retain(|c| c.standing == Standing::Ready && reach.admits(c.near));
}

impl Usable<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.pools.cluster.is_empty()
    }

    /// The endpoints for policy Cluster, for clients that are pods of this node, or of any.
    pub(super) fn cluster_pool(&self, from_anywhere: bool) -> Box<[PlannedEndpoint]> {
        self.pools.cluster.iter().map(|candidate| candidate.backend(&self.ports, from_anywhere)).collect()
    }

    /// The endpoints for policy Local.
    pub(super) fn local_pool(&self) -> Box<[PlannedEndpoint]> {
        self.pools.local.iter().map(|candidate| candidate.backend(&self.ports, false)).collect()
    }
}
