//! One IP family's share of the sync loop: what waits, when it may be written, and what was said about it.
//!
//! The families are apart so that one that fails does not hold the other up.

mod queue;
mod repairs;
mod told;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use cluster::apiserver::Recorder;
use cluster::{ChangeCount, SharedAllowance, Trigger};
use dataplane::{Backend, Reconciler, Synced};
use model::{Family, Planner, ServiceKey};
use rustix::time::{ClockId, clock_gettime};

use crate::contests::Contests;
use crate::failures::{Attempt, Failures};
use crate::limits::Limits;
use crate::pacing::Pacing;
use queue::{KeyQueue, LargeQueue};
use repairs::Repairs;
use telemetry::metrics::SyncMetrics;

/// Pieces of large services rest for this many times their cost: they take at most a third of one core.
const REST_OF_PIECES: u32 = 2;
/// A piece that would still be under way when ordinary changes are due waits for them, but not for longer than this.
const LONGEST_COURTESY: Duration = Duration::from_millis(200);
/// Services that are written in one transaction, and what they may weigh together: some milliseconds' worth, so that none
/// waits long for others.
const MOST_TOGETHER: usize = 100;
const MOST_WEIGHT_TOGETHER: usize = 4_000;
/// Triggers that are kept while nothing can be written; more would say nothing more.
const MOST_TRIGGERS: usize = 10_000;

/// What one sync writes.
enum Work {
    /// All rules; of these services it is known that they changed.
    Everything(Vec<ServiceKey>),
    Changes(Vec<ServiceKey>),
    /// The next piece of a large service.
    Piece([ServiceKey; 1]),
}

impl Work {
    fn services(&self) -> &[ServiceKey] {
        match self {
            Work::Everything(services) | Work::Changes(services) => services,
            Work::Piece(service) => service,
        }
    }
}

pub(crate) struct Lane {
    pub(crate) family: Family,
    pacing: Pacing,
    /// Large services have a pace of their own: what they cost does not delay others.
    large_pacing: Pacing,
    /// Services that are written apart from the others, one at a time and piece by piece.
    large: LargeQueue,
    /// What the last piece took: about what the next one will.
    piece_took: Duration,
    /// When the last piece ended.
    piece_ended: Option<Instant>,
    /// Services whose plan may have changed since this family last followed.
    services: HashSet<ServiceKey>,
    /// Those that did not fit into the last transaction.
    older: KeyQueue,
    node: bool,
    /// Why endpoints changed that wait.
    triggers: Vec<Trigger>,
    /// The changes that the rules of this family follow.
    followed: ChangeCount,
    metrics: SyncMetrics,
    contests: Contests,
    limits: Limits,
    repairs: Repairs,
    failures: Failures,
    /// What may still be said about services that refuse clients.
    told: SharedAllowance,
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
            piece_took: Duration::ZERO,
            piece_ended: None,
            services: HashSet::new(),
            older: KeyQueue::default(),
            node: false,
            triggers: Vec::new(),
            followed: ChangeCount::default(),
            metrics,
            contests: Contests::new(family, recorder.clone()),
            limits: Limits::new(family, recorder),
            repairs: Repairs::default(),
            failures: Failures::default(),
            told: SharedAllowance::default(),
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
        let room = MOST_TRIGGERS.saturating_sub(self.triggers.len());
        self.triggers.extend(ours.take(room).cloned());
    }

    /// A change waits, or more of them do.
    pub(crate) fn note_queued(&self) {
        self.metrics.queued();
    }

    /// Another process changed the rules, or may have; they will be rewritten.
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
        self.node || !self.services.is_empty() || !self.older.is_empty() || reconciler.is_unknown(self.family)
    }

    /// Whether some services still have to follow.
    pub(crate) fn is_behind(&self) -> bool {
        !self.large.is_empty() || !self.older.is_empty()
    }

    /// Whether the rules of this one are still to follow.
    pub(crate) fn waits_for(&self, service: &ServiceKey) -> bool {
        self.services.contains(service) || self.older.contains(service) || self.large.contains(service)
    }

    /// How long from `now` until some of the work of this family may be done.
    pub(crate) fn wait<B: Backend>(&self, reconciler: &Reconciler<B>, now: Instant) -> Duration {
        if reconciler.is_unknown(self.family) {
            return self.pacing.wait(now);
        }
        let small = self.has_small_work(reconciler).then(|| self.small_wait(now));
        let courtesy = small.map_or(Duration::ZERO, |small| self.courtesy(small, now));
        let large = self.large.wait(now).map(|wait| wait.max(self.large_pacing.wait(now)).max(courtesy));
        small.into_iter().chain(large).min().unwrap_or_default()
    }

    /// Another process changed, or may have changed, the rules of this family.
    pub(crate) fn distrust<B: Backend>(&mut self, reconciler: &mut Reconciler<B>, why: &str) {
        if !reconciler.is_unknown(self.family) {
            self.note_damage(why);
            reconciler.distrust(self.family);
        }
    }

    /// Write some of what waits: changes of ordinary services, or else a piece of a large one. `None` if nothing may be
    /// written yet, and after a failure: everything is then rewritten, later.
    pub(crate) fn sync<B: Backend>(
        &mut self,
        reconciler: &mut Reconciler<B>,
        planner: &dyn Planner,
    ) -> Option<Synced> {
        let (started, computed) = (Instant::now(), computed());
        let work = self.choose(reconciler, planner, started)?;
        let outcome = match &work {
            Work::Everything(_) | Work::Changes(_) => reconciler.sync(self.family, work.services(), planner),
            Work::Piece([service]) => reconciler.sync_piece(self.family, service, planner),
        };
        let ended = Instant::now();
        // The kernel may let a transaction wait until it has freed what an earlier one deleted; that costs nobody anything.
        let cost = match reconciler.runs_programs() {
            true => ended - started,
            false => self::computed().saturating_sub(computed).min(ended - started),
        };
        if let Some(news) = reconciler.contest_news(self.family) {
            self.metrics.contested(news.addresses);
            self.contests.report(&news);
        }
        match outcome {
            Ok(synced) => {
                self.succeeded(&work, &synced, (started, ended), cost);
                self.limits.report_shortfalls(reconciler.backend().take_shortfalls(self.family));
                self.measure(&synced, ended - started, reconciler);
                self.report_success(&synced, ended - started);
                Some(synced)
            }
            Err(error) => {
                self.failed(&work, &error.to_string(), started, ended);
                None
            }
        }
    }

    /// What to write now, if anything may be.
    fn choose<B: Backend>(
        &mut self,
        reconciler: &Reconciler<B>,
        planner: &dyn Planner,
        now: Instant,
    ) -> Option<Work> {
        if reconciler.is_unknown(self.family) {
            // Whatever is to be done, without a table that is known it is a rewrite, at the pace of rewrites.
            self.node = false;
            self.older = KeyQueue::default();
            // The first list marks everything, and its room is not needed again.
            let services = std::mem::take(&mut self.services);
            return Some(Work::Everything(services.into_iter().collect()));
        }
        self.set_large_aside(reconciler, planner);
        let is_due = self.large.is_empty() || self.small_wait(now).is_zero();
        if self.has_small_work(reconciler) && is_due {
            self.node = false;
            return Some(Work::Changes(self.take_some(planner)));
        }
        let small_wait = self.has_small_work(reconciler).then(|| self.small_wait(now));
        let has_time = small_wait.is_none_or(|small| self.courtesy(small, now).is_zero());
        let large = self.large.next(now).filter(|_| has_time && self.large_pacing.wait(now).is_zero());
        large.map(|service| Work::Piece([service]))
    }

    fn succeeded(
        &mut self,
        work: &Work,
        synced: &Synced,
        (started, ended): (Instant, Instant),
        cost: Duration,
    ) {
        match work {
            Work::Everything(_) => {
                self.pacing.succeeded(cost, ended);
                self.large.clear();
            }
            Work::Changes(_) => self.pacing.changed(cost, ended),
            Work::Piece([service]) => {
                self.large_pacing.changed(cost, ended);
                (self.piece_took, self.piece_ended) = (ended - started, Some(ended));
                self.large.took_turn(service, synced.unfinished.contains(service));
            }
        }
        self.large.extend(&synced.unfinished);
        self.limits.report(&synced.limited, synced.full);
    }

    fn failed(&mut self, work: &Work, error: &str, started: Instant, ended: Instant) {
        let wait = match work {
            Work::Everything(_) | Work::Changes(_) => self.pacing.failed(ended),
            Work::Piece([service]) => self.large.failed(service, ended),
        };
        let full = matches!(work, Work::Everything(_));
        self.metrics.failed(full, ended - started);
        let attempt = Attempt { full, services: work.services(), error, wait };
        self.failures.note(self.family, &attempt, ended);
    }

    /// What is written in one transaction: some of the services that changed. Those that changed last come before those that
    /// had to wait, but for a quarter: else these would wait for ever where others change all the time.
    fn take_some(&mut self, planner: &dyn Planner) -> Vec<ServiceKey> {
        let fresh = std::mem::take(&mut self.services);
        self.older.remove(&fresh);
        let mut weight = 0_usize;
        let mut some: Vec<ServiceKey> = Vec::new();
        let mut fresh = fresh.into_iter();
        while some.len() < MOST_TOGETHER && weight < MOST_WEIGHT_TOGETHER {
            let is_first_quarter = some.len() < MOST_TOGETHER / 4 && weight < MOST_WEIGHT_TOGETHER / 4;
            let waited = is_first_quarter.then(|| self.older.pop()).flatten();
            let Some(service) = waited.or_else(|| fresh.next()).or_else(|| self.older.pop()) else { break };
            weight = weight.saturating_add(planner.weight(&service));
            some.push(service);
        }
        fresh.for_each(|service| self.older.push(service));
        some
    }

    /// Until ordinary changes may be written; the rest of some that were begun comes at once.
    fn small_wait(&self, now: Instant) -> Duration {
        if self.older.is_empty() { self.pacing.wait(now) } else { Duration::ZERO }
    }

    /// How long a piece waits so that ordinary changes, which are due in `small`, do not have to wait for it.
    fn courtesy(&self, small: Duration, now: Instant) -> Duration {
        if self.piece_took <= small {
            return Duration::ZERO;
        }
        let longest = self
            .piece_ended
            .map_or(Duration::ZERO, |ended| (ended + LONGEST_COURTESY).saturating_duration_since(now));
        small.min(longest)
    }

    /// A service that costs much waits behind those that cost little.
    fn set_large_aside<B: Backend>(&mut self, reconciler: &Reconciler<B>, planner: &dyn Planner) {
        let family = self.family;
        let large: HashSet<ServiceKey> = self
            .services
            .iter()
            .filter(|service| reconciler.is_large(family, service, planner))
            .cloned()
            .collect();
        self.services.retain(|service| !large.contains(service));
        // It may have been small when it began to wait.
        self.older.remove(&large);
        large.into_iter().for_each(|service| self.large.changed(service));
    }

    fn measure<B: Backend>(&mut self, synced: &Synced, took: Duration, reconciler: &Reconciler<B>) {
        self.metrics.synced(synced, took);
        let triggers = std::mem::take(&mut self.triggers);
        let (waiting, followed): (Vec<_>, Vec<_>) =
            triggers.into_iter().partition(|trigger| self.waits_for(&trigger.service));
        self.triggers = waiting;
        self.metrics.reached_traffic(followed.iter().map(|trigger| trigger.millis));
        if let Some(programmed) = reconciler.programmed(self.family) {
            self.metrics.programmed(&programmed);
        }
    }

    fn report_success(&mut self, synced: &Synced, took: Duration) {
        let repaired = self.repairs.end();
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
        told::refusing(family, &synced.refusing, &mut self.told, Instant::now());
        tracing::debug!(
            family = %self.family, full = synced.full, services = synced.services,
            bytes = synced.committed.bytes, micros = took.as_micros() as u64, "Synced"
        );
    }
}

/// What this thread has computed so far, the kernel's work for it included.
fn computed() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

#[cfg(test)]
#[path = "../tests/unit/lane.rs"]
mod tests;
