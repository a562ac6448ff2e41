//! Which endpoints are left of those that stand behind a service port: for traffic of policy Cluster and of policy Local.

use std::borrow::Cow;

use super::PlannedEndpoint;
use super::candidate::Candidate;
use super::choice::Choice;

/// What is left of some slices, whatever ports their endpoints listen on.
#[derive(Default)]
pub(super) struct Pools {
    /// Empty only if there is nothing usable anywhere.
    cluster: Vec<Candidate>,
    local: Vec<Candidate>,
    /// How they were chosen.
    pub(super) choice: Choice,
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
        let choice = Choice::of(&candidates);
        let local = candidates.iter().filter(|one| choice.local(one).is_ok()).copied().collect();
        candidates.retain(|one| choice.cluster(one).is_ok());
        Pools { cluster: candidates, local, choice }
    }
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
