//! What the agent measures of itself, under the names that upstream's dashboards and alerts ask for, and how the
//! pages `/metrics` and `/metrics/slis` show it.
//!
//! Each component gets the small struct it writes to; serving the pages is not done here.

mod page;
mod probes;
mod registry;
mod value;

use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use page::{Page, label_text};
pub(crate) use probes::ProbeMetrics;
pub(crate) use registry::Collector;
use registry::Registry;

/// All metrics of one agent. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Metrics(Arc<Everything>);

struct Everything {
    registry: Registry,
    slis: Registry,
    collectors: Mutex<Vec<Arc<dyn Collector>>>,
    probes: ProbeMetrics,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let (mut registry, mut slis) = (Registry::default(), Registry::default());
        let probes = ProbeMetrics::register(&mut registry, &mut slis);
        Metrics(Arc::new(Everything { registry, slis, collectors: Mutex::default(), probes }))
    }

    /// The page `/metrics`.
    pub(crate) fn text(&self) -> String {
        let mut page = Page::default();
        self.0.registry.write(&mut page);
        let collectors = self.0.collectors.lock().unwrap_or_else(PoisonError::into_inner).clone();
        collectors.iter().for_each(|collector| collector.collect(&mut page));
        page.into_text()
    }

    /// The page `/metrics/slis`.
    pub(crate) fn slis(&self) -> String {
        let mut page = Page::default();
        self.0.slis.write(&mut page);
        page.into_text()
    }

    /// Have `collector` write its families at the end of `/metrics`. It must not block.
    pub(crate) fn extend(&self, collector: Arc<dyn Collector>) {
        self.0.collectors.lock().unwrap_or_else(PoisonError::into_inner).push(collector);
    }

    pub(crate) fn probes(&self) -> &ProbeMetrics {
        &self.0.probes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_probes_are_counted() {
        let metrics = Metrics::new();
        metrics.probes().healthz(true);
        metrics.probes().checked("ping", "healthz", true);
        assert!(metrics.text().contains("kubeproxy_proxy_healthz_total{code=\"200\"} 1\n"));
        assert!(metrics.slis().contains("kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1\n"));
    }
}
