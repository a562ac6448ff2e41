//! What is counted where services are rules of tables.

use dataplane::{RuleCount, metrics};
use model::Family;

use super::per_family::word;
use super::registry::Registry;
use super::value::{Counter, Gauge};

/// Of one family; the gauges by table.
#[derive(Clone, Debug)]
pub(super) struct RuleMetrics {
    total: [Gauge; 2],
    last: [Gauge; 2],
    partial_failures: Counter,
}

impl RuleMetrics {
    pub(super) fn register(
        registry: &mut Registry,
        names: &metrics::RuleMetrics,
        family: Family,
    ) -> RuleMetrics {
        let mut by_table = |about| names.tables.map(|table| registry.gauge(about, &[table, word(family)]));
        RuleMetrics {
            total: by_table(names.total),
            last: by_table(names.last),
            partial_failures: registry.counter(names.partial_failures, &[word(family)]),
        }
    }

    pub(super) fn written(&self, rules: &RuleCount) {
        self.total.iter().zip(rules.total).for_each(|(gauge, count)| gauge.set(count as f64));
        self.last.iter().zip(rules.written).for_each(|(gauge, count)| gauge.set(count as f64));
    }

    pub(super) fn failed(&self, full: bool) {
        if !full {
            self.partial_failures.increment();
        }
    }
}
