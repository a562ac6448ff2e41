//! One IP family's share of the sync loop: what waits, when it may be written, and what was said about it.
//!
//! The families are apart so that one that fails does not hold the other up.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use cluster::apiserver::Recorder;
use cluster::{ChangeCount, Trigger};
use dataplane::{Backend, Pacing, Planner, Reconciler, Synced};
use model::{Family, ServiceKey};

use crate::contests::Contests;
use crate::failures::{Attempt, Failures};
use crate::limits::Limits;
use crate::metrics::SyncMetrics;

/// Damage that comes again within this time is only counted.
const QUARREL: Duration = Duration::from_secs(10);
/// Pieces of large services rest for this many times their cost: they take at most a third of one core.
const REST_OF_PIECES: u32 = 2;
/// Triggers that are kept while nothing can be written; more would say nothing more.
const MOST_TRIGGERS: usize = 10_000;

pub(crate) struct Lane {
    pub(crate) family: Family,
    pacing: Pacing,
    /// Large services have a pace of their own: what they cost delays nobody else.
    large_pacing: Pacing,
    /// Services that are written apart from the others, one at a time and piece by piece.
    large: LargeQueue,
    /// Services whose plan may have changed since this family last followed.
    services: HashSet<ServiceKey>,
    node: bool,
    /// When the endpoint changes that wait were triggered, in milliseconds since the epoch.
    triggers_ms: Vec<i64>,
    /// The changes that the rules of this family follow.
    followed: ChangeCount,
    metrics: SyncMetrics,
    contests: Contests,
    limits: Limits,
    repairs: Repairs,
    failures: Failures,
}

impl Lane {
    pub(crate) fn new(
        family: Family,
        min_sync_period: Duration,
        metrics: SyncMetrics,
        recorder: Recorder,
    ) -> Lane {
        Lane {
            family,
            pacing: Pacing::new(min_sync_period),
            large_pacing: Pacing::new(min_sync_period).with_rest(REST_OF_PIECES),
            large: LargeQueue::default(),
            services: HashSet::new(),
            node: false,
            triggers_ms: Vec::new(),
            followed: ChangeCount::default(),
            metrics,
            contests: Contests::new(family, recorder.clone()),
            limits: Limits::new(family, recorder),
            repairs: Repairs::default(),
            failures: Failures::default(),
        }
    }

    pub(crate) fn set_min_sync_period(&mut self, min_sync_period: Duration) {
        self.pacing.set_min_sync_period(min_sync_period);
        self.large_pacing.set_min_sync_period(min_sync_period);
    }

    pub(crate) fn mark(&mut self, services: &[ServiceKey], node: bool) {
        self.services.extend(services.iter().cloned());
        self.node |= node;
    }

    /// Endpoints change for these reasons; each counts once, when traffic follows.
    pub(crate) fn note_triggers(&mut self, triggers: &[Trigger], since_ms: i64) {
        let ours =
            triggers.iter().filter(|trigger| trigger.family == self.family && trigger.millis > since_ms);
        let room = MOST_TRIGGERS.saturating_sub(self.triggers_ms.len());
        self.triggers_ms.extend(ours.take(room).map(|trigger| trigger.millis));
    }

    /// A change waits, or more of them do.
    pub(crate) fn note_queued(&self) {
        self.metrics.queued();
    }

    /// Somebody else changed the rules, or may have; they will be written anew.
    pub(crate) fn note_damage(&mut self, why: &str) {
        let now = Instant::now();
        self.repairs.note(self.family, why, now);
        self.metrics.repaired();
        self.pacing.repair(now);
    }

    /// Something that is of no use any more could not be removed.
    pub(crate) fn note_left_behind(&self) {
        self.metrics.left_behind();
    }

    pub(crate) fn follows(&mut self, seen: ChangeCount) {
        self.followed = seen;
    }

    pub(crate) fn followed(&self) -> ChangeCount {
        self.followed
    }

    pub(crate) fn has_work<B: Backend>(&self, reconciler: &Reconciler<B>) -> bool {
        self.has_small_work(reconciler) || !self.large.is_empty()
    }

    fn has_small_work<B: Backend>(&self, reconciler: &Reconciler<B>) -> bool {
        self.node || !self.services.is_empty() || reconciler.is_unknown(self.family)
    }

    /// Whether large services still have to follow.
    pub(crate) fn is_behind(&self) -> bool {
        !self.large.is_empty()
    }

    /// How long from `now` until some of the work of this family may be done.
    pub(crate) fn wait<B: Backend>(&self, reconciler: &Reconciler<B>, now: Instant) -> Duration {
        let small = self.has_small_work(reconciler).then(|| self.pacing.wait(now));
        let large = self.is_behind().then(|| self.large_pacing.wait(now));
        small.into_iter().chain(large).min().unwrap_or_default()
    }

    /// Somebody else changed, or may have changed, the rules of this family.
    pub(crate) fn distrust<B: Backend>(&mut self, reconciler: &mut Reconciler<B>, why: &str) {
        if !reconciler.is_unknown(self.family) {
            self.note_damage(why);
            reconciler.distrust(self.family);
        }
    }

    /// Write what waits: changes of ordinary services, or else a piece of a large one. `None` after a failure:
    /// everything is then written anew, later.
    pub(crate) fn sync<B: Backend>(
        &mut self,
        reconciler: &mut Reconciler<B>,
        planner: &dyn Planner,
    ) -> Option<Synced> {
        let started = Instant::now();
        let full = reconciler.is_unknown(self.family);
        if !full {
            self.set_large_aside(reconciler, planner);
        }
        let is_due = self.large.is_empty() || self.pacing.wait(started).is_zero();
        let is_small = self.has_small_work(reconciler) && is_due;
        let large = self.large.next().filter(|_| !is_small && self.large_pacing.wait(started).is_zero());
        let (services, outcome) = match &large {
            Some(service) => (vec![service.clone()], reconciler.sync_piece(self.family, service, planner)),
            None if !is_small => return None,
            None => {
                let services: Vec<ServiceKey> = std::mem::take(&mut self.services).into_iter().collect();
                self.node = false;
                let outcome = reconciler.sync(self.family, &services, planner);
                (services, outcome)
            }
        };
        let ended = Instant::now();
        if let Some(news) = reconciler.contest_news(self.family) {
            self.metrics.contested(news.addresses);
            self.contests.report(&news);
        }
        let pacing = if large.is_none() { &mut self.pacing } else { &mut self.large_pacing };
        match outcome {
            Ok(synced) => {
                pacing.succeeded(started, ended);
                match &large {
                    Some(service) => self.large.remove(service),
                    None if full => self.large = LargeQueue::default(),
                    None => {}
                }
                self.large.extend(&synced.unfinished);
                self.limits.report(&synced.limited);
                self.measure(&synced, ended - started, reconciler);
                self.report_success(&synced, ended - started);
                Some(synced)
            }
            Err(error) => {
                let wait = pacing.failed(ended);
                self.metrics.failed(full, ended - started);
                let error = error.to_string();
                let attempt = Attempt { full, services: &services, error: &error, wait };
                self.failures.note(self.family, &attempt, ended);
                None
            }
        }
    }

    /// A service that costs much waits behind those that cost little.
    fn set_large_aside<B: Backend>(&mut self, reconciler: &mut Reconciler<B>, planner: &dyn Planner) {
        let family = self.family;
        let large: Vec<ServiceKey> = self
            .services
            .iter()
            .filter(|service| reconciler.is_large(family, service, planner))
            .cloned()
            .collect();
        for service in &large {
            self.services.remove(service);
        }
        reconciler.replan(family, &large);
        self.large.extend(&large);
    }

    fn measure<B: Backend>(&mut self, synced: &Synced, took: Duration, reconciler: &Reconciler<B>) {
        self.metrics.synced(synced, took);
        self.metrics.reached_traffic(self.triggers_ms.drain(..));
        if let Some(programmed) = reconciler.programmed(self.family) {
            self.metrics.programmed(&programmed);
        }
    }

    fn report_success(&mut self, synced: &Synced, took: Duration) {
        let repaired = std::mem::take(&mut self.repairs.under_way);
        let family = self.family;
        match self.failures.end(Instant::now()) {
            Some((failures, time)) => tracing::info!(
                %family, failures, seconds = time.as_secs(), millis = took.as_millis() as u64,
                "Rules are in place again"
            ),
            None if repaired => {
                tracing::info!(%family, millis = took.as_millis() as u64, "Rules are in place again");
            }
            None => {}
        }
        tracing::debug!(
            family = %self.family, full = synced.full, services = synced.services,
            bytes = synced.committed.bytes, micros = took.as_micros() as u64, "Synced"
        );
    }
}

/// Large services in the order in which they get their turn, each once.
#[derive(Default)]
struct LargeQueue {
    order: VecDeque<ServiceKey>,
    waiting: HashSet<ServiceKey>,
}

impl LargeQueue {
    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn next(&self) -> Option<ServiceKey> {
        self.order.front().cloned()
    }

    fn extend(&mut self, services: &[ServiceKey]) {
        for service in services {
            if self.waiting.insert(service.clone()) {
                self.order.push_back(service.clone());
            }
        }
    }

    fn remove(&mut self, service: &ServiceKey) {
        self.order.retain(|waiting| waiting != service);
        self.waiting.remove(service);
    }
}

/// What was said about damage by others: the first in a while at once, the rest as a sum.
#[derive(Default)]
struct Repairs {
    said: Option<Instant>,
    since: u32,
    /// A repair that was announced is not done yet.
    under_way: bool,
}

impl Repairs {
    fn note(&mut self, family: Family, why: &str, now: Instant) {
        self.since += 1;
        if self.said.is_some_and(|said| now.saturating_duration_since(said) < QUARREL) {
            return;
        }
        if self.since > 1 {
            tracing::warn!(
                %family, times = self.since,
                "{why}, again and again; is a second kube-proxy running? Writing all rules anew"
            );
        } else {
            tracing::warn!(%family, "{why}; writing all rules anew");
        }
        (self.said, self.since, self.under_way) = (Some(now), 0, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{FeatureGates, Mode};
    use crate::logging::capture::heard;
    use crate::metrics::Metrics;
    use dataplane::Planned;
    use dataplane::nftables::Nftables;
    use kernel::nft::simulate::Simulator;
    use model::{LocalDetector, NodePlan};

    struct Nothing;

    impl Planner for Nothing {
        fn plan(&self, _: &ServiceKey, _: Family) -> Option<Planned> {
            None
        }
        fn weight(&self, _: &ServiceKey) -> usize {
            0
        }
        fn services(&self) -> Vec<ServiceKey> {
            Vec::new()
        }
        fn node(&self, _: Family) -> NodePlan {
            NodePlan::default()
        }
    }

    #[test]
    fn a_refused_transaction_is_told_in_full_once() {
        const ENOMEM: i32 = 12;
        let mut reconciler = Reconciler::new(Nftables::new(Simulator::new(), &LocalDetector::None, 1 << 14));
        let metrics = Metrics::new(Mode::Nftables, &FeatureGates::default());
        let of_family = metrics.sync().of(Family::V4).clone();
        let mut lane = Lane::new(Family::V4, Duration::ZERO, of_family, Recorder::nowhere());
        lane.mark(&["default/web".into()], false);
        let (_, log) = heard(&["v=2"], |_| {
            for _ in 0..3 {
                reconciler.backend().transport().fail_next(ENOMEM);
                assert!(lane.sync(&mut reconciler, &Nothing).is_none());
            }
            assert!(lane.sync(&mut reconciler, &Nothing).is_some());
        });
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 2, "{log}");
        for part in [
            "\"Could not write the rules; the old ones stay in place and everything is tried again\"",
            "family=\"IPv4\" writing=\"everything\" changed=1 services=\"default/web\"",
            "the transaction on table \\\"ip kube-proxy\\\": the kernel is short of memory (ENOMEM)",
        ] {
            assert!(lines[0].contains(part), "{part} is missing in:\n{log}");
        }
        assert!(lines[1].contains("\"Rules are in place again\" family=\"IPv4\" failures=3"), "{log}");
    }
}
