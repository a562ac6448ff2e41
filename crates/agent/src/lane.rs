//! One IP family's share of the sync loop: what waits, when it may be written, and what was said about it.
//!
//! The families are apart so that one that fails does not hold the other up.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use cluster::{ChangeCount, Trigger};
use dataplane::{Backend, Pacing, Planner, Reconciler, Synced};
use model::{Family, ServiceKey};

use crate::contests::Contests;
use crate::failures::{Attempt, Failures};
use crate::metrics::SyncMetrics;

/// Damage that comes again within this time is only counted.
const QUARREL: Duration = Duration::from_secs(10);
/// Triggers that are kept while nothing can be written; more would say nothing more.
const MOST_TRIGGERS: usize = 10_000;

pub(crate) struct Lane {
    pub(crate) family: Family,
    pacing: Pacing,
    /// Services whose plan may have changed since this family last followed.
    services: HashSet<ServiceKey>,
    node: bool,
    /// When the endpoint changes that wait were triggered, in milliseconds since the epoch.
    triggers_ms: Vec<i64>,
    /// The changes that the rules of this family follow.
    followed: ChangeCount,
    metrics: SyncMetrics,
    contests: Contests,
    repairs: Repairs,
    failures: Failures,
}

impl Lane {
    pub(crate) fn new(
        family: Family,
        min_sync_period: Duration,
        metrics: SyncMetrics,
        contests: Contests,
    ) -> Lane {
        Lane {
            family,
            pacing: Pacing::new(min_sync_period),
            services: HashSet::new(),
            node: false,
            triggers_ms: Vec::new(),
            followed: ChangeCount::default(),
            metrics,
            contests,
            repairs: Repairs::default(),
            failures: Failures::default(),
        }
    }

    pub(crate) fn set_min_sync_period(&mut self, min_sync_period: Duration) {
        self.pacing.set_min_sync_period(min_sync_period);
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
        self.node || !self.services.is_empty() || reconciler.is_unknown(self.family)
    }

    /// How long from `now` until this family may be written.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        self.pacing.wait(now)
    }

    /// Somebody else changed, or may have changed, the rules of this family.
    pub(crate) fn distrust<B: Backend>(&mut self, reconciler: &mut Reconciler<B>, why: &str) {
        if !reconciler.is_unknown(self.family) {
            self.note_damage(why);
            reconciler.distrust(self.family);
        }
    }

    /// Write what waits. `None` after a failure: everything is then written anew, later.
    pub(crate) fn sync<B: Backend>(
        &mut self,
        reconciler: &mut Reconciler<B>,
        planner: &dyn Planner,
    ) -> Option<Synced> {
        let started = Instant::now();
        let services: Vec<ServiceKey> = std::mem::take(&mut self.services).into_iter().collect();
        self.node = false;
        let full = reconciler.is_unknown(self.family);
        let outcome = reconciler.sync(self.family, &services, planner);
        let ended = Instant::now();
        if let Some(news) = reconciler.contest_news(self.family) {
            self.metrics.contested(news.addresses);
            self.contests.report(&news);
        }
        match outcome {
            Ok(synced) => {
                self.pacing.succeeded(started, ended);
                self.measure(&synced, ended - started, reconciler);
                self.report_success(&synced, ended - started);
                Some(synced)
            }
            Err(error) => {
                let wait = self.pacing.failed(ended);
                self.metrics.failed(full, ended - started);
                let error = error.to_string();
                let attempt = Attempt { full, services: &services, error: &error, wait };
                self.failures.note(self.family, &attempt, ended);
                None
            }
        }
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
    use cluster::apiserver::Recorder;
    use dataplane::Planned;
    use dataplane::nftables::Nftables;
    use kernel::nft::simulate::Simulator;
    use model::{LocalDetector, NodePlan};

    struct Nothing;

    impl Planner for Nothing {
        fn plan(&self, _: &ServiceKey, _: Family) -> Option<Planned> {
            None
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
        let contests = Contests::new(Family::V4, Recorder::nowhere());
        let mut lane = Lane::new(Family::V4, Duration::ZERO, metrics.sync().of(Family::V4).clone(), contests);
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
