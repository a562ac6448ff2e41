//! What the probes answer: whether rules are in place and kept up to date.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use cluster::manifests::{Consequence, ManifestProblem};
use model::Family;

/// Shared between the sync loop, which reports, and the servers, which ask.
#[derive(Clone, Debug)]
pub(crate) struct Health(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// An update that waits for longer means that the agent is stuck.
    patience: Duration,
    waiting_since: [Option<Instant>; 2],
    updated: [Option<SystemTime>; 2],
    awaited: Option<Awaited>,
    /// What is wrong with manifests that were never read whole, by file and document.
    unread: BTreeMap<(PathBuf, Option<usize>), String>,
    /// The node is about to go: load balancers are to send elsewhere.
    leaving: bool,
}

/// What must be known before everything is programmed as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    Lists,
    Node,
    /// Rules are written, but not yet for the node and the detection of local traffic that the configuration asks for.
    ChangedNode,
}

/// The state of things at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) now: SystemTime,
    pub(crate) is_eligible: bool,
    pub(crate) awaited: Option<Awaited>,
    /// The first problem for which the lists are awaited.
    pub(crate) unread: Option<String>,
    /// By [`Family::index`]; `None` before its first sync.
    pub(crate) families: [Option<FamilyReport>; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FamilyReport {
    pub(crate) updated: SystemTime,
    /// No change waits for longer than it may.
    pub(crate) is_healthy: bool,
}

impl Report {
    /// Every family keeps up. One that was never synced is not late yet, as kube-proxy has it.
    pub(crate) fn is_live(&self) -> bool {
        self.families.iter().flatten().all(|family| family.is_healthy)
    }

    /// Up to date, and to be sent traffic.
    pub(crate) fn is_healthy(&self) -> bool {
        self.is_live() && self.is_eligible
    }

    /// The first sync of each family is done.
    pub(crate) fn is_ready(&self) -> bool {
        self.families.iter().all(Option::is_some)
    }
}

impl Health {
    pub(crate) fn new(sync_period: Duration) -> Health {
        Health(Arc::new(Mutex::new(State {
            patience: sync_period.saturating_mul(2),
            waiting_since: [None; 2],
            updated: [None; 2],
            awaited: Some(Awaited::Lists),
            unread: BTreeMap::new(),
            leaving: false,
        })))
    }

    pub(crate) fn set_sync_period(&self, sync_period: Duration) {
        self.with(|state| state.patience = sync_period.saturating_mul(2));
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
            state.updated[family.index()] = Some(SystemTime::now());
        });
    }

    /// Whether that is new.
    pub(crate) fn set_leaving(&self, leaving: bool) -> bool {
        self.with(|state| std::mem::replace(&mut state.leaving, leaving) != leaving)
    }

    pub(crate) fn set_awaited(&self, awaited: Option<Awaited>) {
        self.with(|state| state.awaited = awaited);
    }

    pub(crate) fn note_problems(&self, new: &[ManifestProblem], solved: &[ManifestProblem]) {
        let key = |problem: &ManifestProblem| (problem.file.clone(), problem.document);
        let keeps_all =
            |problem: &&ManifestProblem| problem.consequence == Some(Consequence::NothingProgrammed);
        let text =
            |problem: &ManifestProblem| ManifestProblem { consequence: None, ..problem.clone() }.to_string();
        self.with(|state| {
            solved.iter().for_each(|problem| drop(state.unread.remove(&key(problem))));
            state.unread.extend(new.iter().filter(keeps_all).map(|problem| (key(problem), text(problem))));
        });
    }

    /// A change waits for its sync.
    pub(crate) fn has_waiting(&self) -> bool {
        self.with(|state| state.waiting_since.iter().any(Option::is_some))
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.with(|state| state.updated.iter().all(Option::is_some))
    }

    pub(crate) fn report(&self) -> Report {
        self.with(|state| {
            let is_late = |since: Instant| since.elapsed() >= state.patience;
            let family = |family: Family| {
                let is_healthy = !state.waiting_since[family.index()].is_some_and(is_late);
                state.updated[family.index()].map(|updated| FamilyReport { updated, is_healthy })
            };
            Report {
                now: SystemTime::now(),
                is_eligible: !state.leaving,
                awaited: state.awaited,
                unread: state.unread.values().next().cloned(),
                families: Family::BOTH.map(family),
            }
        })
    }

    fn with<T>(&self, action: impl FnOnce(&mut State) -> T) -> T {
        action(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_after_both_families_and_unhealthy_when_stuck() {
        let health = Health::new(Duration::ZERO);
        let is_healthy = || health.report().is_healthy();
        health.queued(Family::V4);
        assert!(!health.is_ready() && is_healthy(), "nothing is late before its first sync");
        assert!(health.has_waiting());
        health.updated(Family::V4);
        assert!(!health.is_ready() && !health.report().is_ready());
        health.updated(Family::V6);
        assert!(health.is_ready() && health.report().is_ready());
        Family::BOTH.iter().for_each(|family| health.queued(*family));
        assert!(!is_healthy(), "patience is zero");
        health.updated(Family::V4);
        assert!(!is_healthy(), "the other family still waits");
        health.set_sync_period(Duration::from_secs(1800));
        assert!(is_healthy(), "it may wait for longer now");
        health.set_sync_period(Duration::ZERO);
        health.updated(Family::V6);
        assert!(is_healthy());
        assert!(!health.has_waiting());
        health.set_leaving(true);
        assert!(!is_healthy() && health.report().is_live());
    }
}
