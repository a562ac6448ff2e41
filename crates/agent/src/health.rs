//! What the probes answer: whether rules are in place and kept up to date.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::Family;

/// Shared between the sync loop, which reports, and the probe server, which asks.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    state: Arc<Mutex<State>>,
    /// An update that waits for longer means that the agent is stuck.
    patience: Duration,
}

#[derive(Debug, Default)]
struct State {
    waiting_since: [Option<Instant>; 2],
    synced: [bool; 2],
    /// The node is about to go: load balancers are to send elsewhere.
    leaving: bool,
}

impl Health {
    pub(crate) fn new(sync_period: Duration) -> Health {
        Health { state: Arc::default(), patience: sync_period.saturating_mul(2) }
    }

    /// A change of this family waits for its sync.
    pub(crate) fn queued(&self, family: Family) {
        self.with(|state| {
            state.waiting_since[family.index()].get_or_insert_with(Instant::now);
        });
    }

    pub(crate) fn updated(&self, family: Family) {
        self.with(|state| {
            state.waiting_since[family.index()] = None;
            state.synced[family.index()] = true;
        });
    }

    pub(crate) fn set_leaving(&self, leaving: bool) {
        self.with(|state| state.leaving = leaving);
    }

    /// Up to date, and to be sent traffic.
    pub(crate) fn is_healthy(&self) -> bool {
        self.is_live() && !self.with(|state| state.leaving)
    }

    pub(crate) fn is_live(&self) -> bool {
        self.with(|state| state.waiting_since.iter().flatten().all(|since| since.elapsed() < self.patience))
    }

    /// The first sync of each family is done.
    pub(crate) fn is_ready(&self) -> bool {
        self.with(|state| state.synced == [true, true])
    }

    fn with<T>(&self, action: impl FnOnce(&mut State) -> T) -> T {
        action(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_after_both_families_and_unhealthy_when_stuck() {
        let health = Health::new(Duration::ZERO);
        assert!(!health.is_ready() && health.is_healthy());
        health.updated(Family::V4);
        assert!(!health.is_ready());
        health.updated(Family::V6);
        assert!(health.is_ready());
        Family::BOTH.iter().for_each(|family| health.queued(*family));
        assert!(!health.is_healthy(), "patience is zero");
        health.updated(Family::V4);
        assert!(!health.is_healthy(), "the other family still waits");
        health.updated(Family::V6);
        assert!(health.is_healthy());
        health.set_leaving(true);
        assert!(!health.is_healthy() && health.is_live());
    }
}
