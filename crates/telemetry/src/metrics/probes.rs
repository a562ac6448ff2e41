//! What was answered to probes.

use super::registry::{Description, Growing, Registry};
use super::value::Counter;

const HEALTHZ: Description = Description::counter(
    "kubeproxy_proxy_healthz_total",
    &["code"],
    "Answers to /healthz, by HTTP status code",
);
const LIVEZ: Description =
    Description::counter("kubeproxy_proxy_livez_total", &["code"], "Answers to /livez, by HTTP status code");
const HEALTHCHECK: Description = Description::gauge(
    "kubernetes_healthcheck",
    &["name", "type"],
    "The last result of a health check: 1 if it passed",
);
const HEALTHCHECKS: Description = Description::counter(
    "kubernetes_healthchecks_total",
    &["name", "type", "status"],
    "Results of a health check",
);

/// The two answers that the probe server gives.
#[derive(Clone, Debug)]
struct Answers {
    good: Counter,
    bad: Counter,
}

impl Answers {
    fn register(registry: &mut Registry, about: Description) -> Answers {
        Answers { good: registry.counter(about, &["200"]), bad: registry.counter(about, &["503"]) }
    }

    fn count(&self, good: bool) {
        if good { self.good.increment() } else { self.bad.increment() }
    }
}

#[derive(Clone, Debug)]
pub struct ProbeMetrics {
    healthz: Answers,
    livez: Answers,
    healthcheck: Growing,
    healthchecks: Growing,
}

impl ProbeMetrics {
    pub(super) fn register(registry: &mut Registry, slis: &mut Registry) -> ProbeMetrics {
        ProbeMetrics {
            healthz: Answers::register(registry, HEALTHZ),
            livez: Answers::register(registry, LIVEZ),
            healthcheck: slis.growing(HEALTHCHECK),
            healthchecks: slis.growing(HEALTHCHECKS),
        }
    }

    /// `/healthz` of the probe server was answered, with 200 if `good` and else 503.
    pub fn healthz(&self, good: bool) {
        self.healthz.count(good);
    }

    /// The same of `/livez`.
    pub fn livez(&self, good: bool) {
        self.livez.count(good);
    }

    /// A health check ran. `endpoint` is where: `healthz` for `/healthz` of the metrics server.
    pub fn checked(&self, name: &str, endpoint: &str, passed: bool) {
        self.healthcheck.gauge(&[name, endpoint]).set(if passed { 1.0 } else { 0.0 });
        let status = if passed { "success" } else { "error" };
        self.healthchecks.counter(&[name, endpoint, status]).increment();
    }
}
