//! One IP family's share of the sync loop: what waits, when it may be written, and what was said about it.
//!
//! The families are apart so that one that fails does not hold the other up.

use std::collections::{HashMap, HashSet, VecDeque};
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
/// Services that are written in one transaction: a few milliseconds' worth, so that nobody waits long for others.
const MOST_TOGETHER: usize = 100;
/// After a refused piece a large service waits, each time twice as long: everything is rewritten for it.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(300);
/// So many pieces of one service are written before another one gets its turn.
const MOST_TURNS: u32 = 100;
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
    /// Those that did not fit into the last transaction.
    older: VecDeque<ServiceKey>,
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
            older: VecDeque::new(),
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
        self.node || !self.services.is_empty() || !self.older.is_empty() || reconciler.is_unknown(self.family)
    }

    /// Whether some services still have to follow.
    pub(crate) fn is_behind(&self) -> bool {
        !self.large.is_empty() || !self.older.is_empty()
    }

    /// How long from `now` until some of the work of this family may be done.
    pub(crate) fn wait<B: Backend>(&self, reconciler: &Reconciler<B>, now: Instant) -> Duration {
        if reconciler.is_unknown(self.family) {
            return self.pacing.wait(now);
        }
        let small = self.has_small_work(reconciler).then(|| self.small_wait(now));
        let large = self.large.wait(now).map(|wait| wait.max(self.large_pacing.wait(now)));
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
        let is_due = self.large.is_empty() || self.small_wait(started).is_zero();
        let is_small = self.has_small_work(reconciler) && is_due;
        // Whatever is to be done, without a table that is known it is a rewrite, at the pace of rewrites.
        let has_turn = !full && !is_small && self.large_pacing.wait(started).is_zero();
        let large = self.large.next(started).filter(|_| has_turn);
        let (services, outcome) = match &large {
            Some(service) => (vec![service.clone()], reconciler.sync_piece(self.family, service, planner)),
            None if !is_small => return None,
            None => {
                let services = self.take_some(full);
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
                match full {
                    true => pacing.succeeded(started, ended),
                    false => pacing.changed(started, ended),
                }
                match &large {
                    Some(service) => self.large.took_turn(service, synced.unfinished.contains(service)),
                    None if full => self.large.clear(),
                    None => {}
                }
                self.large.extend(&synced.unfinished);
                self.limits.report(&synced.limited);
                self.measure(&synced, ended - started, reconciler);
                self.report_success(&synced, ended - started);
                Some(synced)
            }
            Err(error) => {
                let wait = match &large {
                    Some(service) => self.large.failed(service, ended),
                    None => pacing.failed(ended),
                };
                self.metrics.failed(full, ended - started);
                let error = error.to_string();
                let attempt = Attempt { full, services: &services, error: &error, wait };
                self.failures.note(self.family, &attempt, ended);
                None
            }
        }
    }

    /// What is written in one transaction: some of the services that changed, those that changed last before those that had to
    /// wait. Everything is written anyway if nothing is known.
    fn take_some(&mut self, all: bool) -> Vec<ServiceKey> {
        let mut some: Vec<ServiceKey> = self.services.drain().collect();
        if all {
            self.older.clear();
            return some;
        }
        let fresh: HashSet<&ServiceKey> = some.iter().collect();
        self.older.retain(|service| !fresh.contains(service));
        let more = MOST_TOGETHER.saturating_sub(some.len()).min(self.older.len());
        self.older.extend(some.split_off(some.len().min(MOST_TOGETHER)));
        some.extend(self.older.drain(..more));
        some
    }

    /// Until ordinary changes may be written; the rest of some that were begun comes at once.
    fn small_wait(&self, now: Instant) -> Duration {
        if self.older.is_empty() { self.pacing.wait(now) } else { Duration::ZERO }
    }

    /// A service that costs much waits behind those that cost little.
    fn set_large_aside<B: Backend>(&mut self, reconciler: &Reconciler<B>, planner: &dyn Planner) {
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
        large.into_iter().for_each(|service| self.large.changed(service));
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
    /// Those that changed since they began to wait.
    again: HashSet<ServiceKey>,
    /// How many pieces were written since another one had its turn.
    turns: u32,
    /// How often a piece was refused, and until when the service waits for that.
    failures: HashMap<ServiceKey, (u32, Instant)>,
}

impl LargeQueue {
    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Everything is written. What was refused is not.
    fn clear(&mut self) {
        (self.order, self.waiting, self.again, self.turns) = Default::default();
    }

    /// The first that need not wait after a failure.
    fn next(&self, now: Instant) -> Option<ServiceKey> {
        self.order.iter().find(|service| self.rest(service, now).is_zero()).cloned()
    }

    /// How long until there is one; `None` if none waits.
    fn wait(&self, now: Instant) -> Option<Duration> {
        self.order.iter().map(|service| self.rest(service, now)).min()
    }

    fn rest(&self, service: &ServiceKey, now: Instant) -> Duration {
        let until = self.failures.get(service).map(|(_, until)| until.saturating_duration_since(now));
        until.unwrap_or_default()
    }

    fn failed(&mut self, service: &ServiceKey, now: Instant) -> Duration {
        let (times, until) = self.failures.entry(service.clone()).or_insert((0, now));
        let wait = (FIRST_RETRY * (1 << (*times).min(16))).min(LONGEST_RETRY);
        (*times, *until) = (*times + 1, now + wait);
        wait
    }

    fn extend(&mut self, services: &[ServiceKey]) {
        for service in services {
            if self.waiting.insert(service.clone()) {
                self.order.push_back(service.clone());
            }
        }
    }

    /// What it is to become is planned when its turn comes, but not again before that is reached: a service that changes
    /// faster than it can be written would be planned for nothing.
    fn changed(&mut self, service: ServiceKey) {
        if self.waiting.contains(&service) {
            self.again.insert(service);
        } else {
            self.extend(std::slice::from_ref(&service));
        }
    }

    /// A piece of this one is written. It keeps its place for the next one, because what it is to become is known; but
    /// not for ever, if it keeps changing.
    fn took_turn(&mut self, service: &ServiceKey, is_unfinished: bool) {
        self.failures.remove(service);
        self.turns += 1;
        if is_unfinished && self.turns < MOST_TURNS {
            return;
        }
        self.turns = 0;
        self.order.retain(|waiting| waiting != service);
        match is_unfinished || self.again.remove(service) {
            true => self.order.push_back(service.clone()),
            false => drop(self.waiting.take(service)),
        }
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
                "{why} repeatedly; is a second kube-proxy running? Rewriting all rules"
            );
        } else {
            tracing::warn!(%family, "{why}; rewriting all rules");
        }
        (self.said, self.since, self.under_way) = (Some(now), 0, true);
    }
}

#[cfg(test)]
#[path = "lane_tests.rs"]
mod tests;
