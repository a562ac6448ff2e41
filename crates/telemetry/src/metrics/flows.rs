//! What forgetting stale flows costs.

use std::time::Duration;

use super::buckets;
use super::per_family::{PerFamily, word};
use super::registry::{Description, Kind, Registry};
use super::value::{Counter, Histogram};

const DURATION: Description = Description {
    name: "kubeproxy_conntrack_reconciler_sync_duration_seconds",
    kind: Kind::Histogram(buckets::SYNC),
    labels: &["ip_family"],
    help: "Duration of the searches for stale flows",
};
const DELETED: Description = Description::counter(
    "kubeproxy_conntrack_reconciler_deleted_entries_total",
    &["ip_family"],
    "Flows that were deleted because their endpoint or address was gone",
);
const FAILURES: Description = Description::counter(
    "pointsman_conntrack_reconciler_failures_total",
    &["ip_family"],
    "Failed searches for stale flows; clients of removed endpoints may hang",
);

#[derive(Clone, Debug)]
pub struct FlowMetrics {
    duration: Histogram,
    deleted: Counter,
    failures: Counter,
}

impl FlowMetrics {
    pub(super) fn register(registry: &mut Registry) -> PerFamily<FlowMetrics> {
        PerFamily::new(|family| FlowMetrics {
            duration: registry.histogram(DURATION, &[word(family)]),
            deleted: registry.counter(DELETED, &[word(family)]),
            failures: registry.counter(FAILURES, &[word(family)]),
        })
    }

    pub fn walked(&self, took: Duration, deleted: u64) {
        self.duration.observe_duration(took);
        self.deleted.add(deleted);
    }

    pub fn failed(&self) {
        self.failures.increment();
    }
}
