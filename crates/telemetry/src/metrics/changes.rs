//! Changes of objects, and which of them traffic does not follow yet.

use cluster::ChangeCount;

use super::registry::Registry;
use super::sync_names as names;
use super::value::Gauge;

#[derive(Clone, Debug)]
pub struct ChangeMetrics {
    services: Counted,
    endpoints: Counted,
}

#[derive(Clone, Debug)]
struct Counted {
    total: Gauge,
    pending: Gauge,
}

impl Counted {
    fn set(&self, seen: u64, followed: u64) {
        self.total.set(seen as f64);
        self.pending.set(seen.saturating_sub(followed) as f64);
    }
}

impl ChangeMetrics {
    pub(super) fn register(registry: &mut Registry) -> ChangeMetrics {
        let endpoints = Counted {
            pending: registry.gauge(names::ENDPOINTS_PENDING, &[]),
            total: registry.gauge(names::ENDPOINTS_TOTAL, &[]),
        };
        let services = Counted {
            pending: registry.gauge(names::SERVICES_PENDING, &[]),
            total: registry.gauge(names::SERVICES_TOTAL, &[]),
        };
        let metrics = ChangeMetrics { services, endpoints };
        metrics.set(ChangeCount::default(), ChangeCount::default());
        metrics
    }

    /// `seen` changes came in, and traffic of every family follows the first `followed` of them.
    pub fn set(&self, seen: ChangeCount, followed: ChangeCount) {
        self.services.set(seen.services, followed.services);
        self.endpoints.set(seen.slices, followed.slices);
    }
}
