//! What the sync loop measures, one struct for each family.

use std::time::{Duration, SystemTime};

use dataplane::metrics::ModeMetrics;
use dataplane::{Programmed, Synced};
use model::Family;

use super::clock::{seconds, since};
use super::per_family::{PerFamily, word};
use super::recent::{RecentSync, RecentSyncs, Written};
use super::registry::Registry;
use super::rules::RuleMetrics;
use super::sync_names as names;
use super::value::{Counter, Gauge, Histogram};

/// How long changes took to reach this family of the data plane, and how much is in it.
#[derive(Clone, Debug)]
pub struct SyncMetrics {
    family: Family,
    /// Of both families.
    recent: RecentSyncs,
    duration: Histogram,
    /// Not in every mode.
    full: Option<Histogram>,
    partial: Option<Histogram>,
    network_programming: Histogram,
    last: Gauge,
    last_queued: Gauge,
    failures: Counter,
    /// Not in every mode.
    cleanup_failures: Option<Counter>,
    unserved_internal: Gauge,
    unserved_external: Gauge,
    /// Where services are rules.
    rules: Option<RuleMetrics>,
    phases: [Histogram; 3],
    programmed: [Gauge; 3],
    repairs: Counter,
    contested: Gauge,
}

impl SyncMetrics {
    pub(super) fn register(registry: &mut Registry, mode: &ModeMetrics) -> PerFamily<SyncMetrics> {
        let recent = RecentSyncs::default();
        PerFamily::new(|family| SyncMetrics::of_family(registry, mode, family, recent.clone()))
    }

    fn of_family(
        registry: &mut Registry,
        mode: &ModeMetrics,
        family: Family,
        recent: RecentSyncs,
    ) -> SyncMetrics {
        let of = [word(family)];
        let has_partial = mode.times_partial_syncs;
        let contested = registry.gauge(names::CONTESTED, &of);
        // It is only set when something changes.
        contested.set(0.0);
        SyncMetrics {
            family,
            recent,
            duration: registry.histogram(names::DURATION, &of),
            full: has_partial.then(|| registry.histogram(names::FULL_DURATION, &of)),
            partial: has_partial.then(|| registry.histogram(names::PARTIAL_DURATION, &of)),
            network_programming: registry.histogram(names::NETWORK_PROGRAMMING, &of),
            last: registry.gauge(names::LAST, &of),
            last_queued: registry.gauge(names::LAST_QUEUED, &of),
            failures: registry.counter(mode.failures, &of),
            cleanup_failures: mode.cleanup_failures.map(|about| registry.counter(about, &of)),
            unserved_internal: registry.gauge(names::NO_LOCAL_ENDPOINTS, &["internal", word(family)]),
            unserved_external: registry.gauge(names::NO_LOCAL_ENDPOINTS, &["external", word(family)]),
            rules: mode.rules.as_ref().map(|rules| RuleMetrics::register(registry, rules, family)),
            phases: names::PHASES
                .map(|phase| registry.histogram(names::PHASE_DURATION, &[phase, word(family)])),
            programmed: names::PROGRAMMED.map(|about| registry.gauge(about, &of)),
            repairs: registry.counter(names::REPAIRS, &of),
            contested,
        }
    }

    /// A change waits for its sync.
    pub fn queued(&self) {
        self.last_queued.set(seconds(SystemTime::now()));
    }

    pub fn synced(&self, synced: &Synced, took: Duration) {
        let written = Written { services: synced.services, bytes: synced.committed.bytes };
        self.took(synced.full, took, Some(written));
        let spent = [synced.phases.plan, synced.phases.render, synced.phases.commit];
        self.phases.iter().zip(spent).for_each(|(phase, spent)| phase.observe_duration(spent));
        // A sync that found nothing to write says nothing of what is there.
        if synced.committed.bytes > 0 {
            self.rules.iter().for_each(|rules| rules.written(&synced.committed.rules));
        }
        self.last.set(seconds(SystemTime::now()));
    }

    /// Something that is of no use any more could not be cleared away. It does no harm.
    pub fn left_behind(&self) {
        self.cleanup_failures.iter().for_each(Counter::increment);
    }

    pub fn failed(&self, full: bool, took: Duration) {
        self.took(full, took, None);
        self.failures.increment();
        self.rules.iter().for_each(|rules| rules.failed(full));
    }

    fn took(&self, full: bool, took: Duration, written: Option<Written>) {
        let (family, ended) = (self.family, SystemTime::now());
        self.recent.add(RecentSync { family, ended, took, full, written });
        self.duration.observe_duration(took);
        let kind = if full { &self.full } else { &self.partial };
        kind.iter().for_each(|histogram| histogram.observe_duration(took));
    }

    /// Endpoints changed at these times (milliseconds since the epoch), and traffic follows now.
    pub fn reached_traffic(&self, triggers_ms: impl IntoIterator<Item = i64>) {
        let now = SystemTime::now();
        triggers_ms.into_iter().for_each(|millis| self.network_programming.observe(since(millis, now)));
    }

    /// The last syncs, of both families.
    pub fn recent(&self) -> &RecentSyncs {
        &self.recent
    }

    pub fn programmed(&self, programmed: &Programmed) {
        self.recent.programmed(self.family, programmed);
        let counts = [programmed.services, programmed.endpoints, programmed.elements];
        self.programmed.iter().zip(counts).for_each(|(gauge, count)| gauge.set(count as f64));
        self.unserved_internal.set(programmed.unserved.internal as f64);
        self.unserved_external.set(programmed.unserved.external as f64);
    }

    /// So many addresses are claimed by more than one service.
    pub fn contested(&self, addresses: usize) {
        self.contested.set(addresses as f64);
    }

    /// Another process changed the rules, and they are rewritten.
    pub fn repaired(&self) {
        self.repairs.increment();
    }
}
