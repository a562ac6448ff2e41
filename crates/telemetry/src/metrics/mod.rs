//! What the agent measures of itself, under the names that upstream's dashboards and alerts ask for, and how the
//! pages `/metrics` and `/metrics/slis` show it. `docs/metrics.md` explains each.
//!
//! Each component gets the small struct it writes to; serving the pages is not done here.

mod about;
mod api;
mod api_names;
mod buckets;
mod changes;
mod clock;
mod flows;
mod histogram;
mod per_family;
mod probes;
mod process;
mod recent;
mod registry;
mod rules;
mod sync;
mod sync_names;
#[cfg(test)]
mod tests;
mod value;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use config::FeatureGates;

use about::About;
pub use api::ApiMetrics;
pub use changes::ChangeMetrics;
use dataplane::Traffic;
use dataplane::metrics::{Collector, ModeMetrics, Page};
pub use flows::FlowMetrics;
use model::Family;
pub use per_family::PerFamily;
pub use probes::ProbeMetrics;
use process::ProcessMetrics;
pub use recent::{MOST_REMEMBERED, RecentSync, RecentSyncs, Remembered};
use registry::Registry;
pub use sync::SyncMetrics;

/// All metrics of one agent. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Everything>);

struct Everything {
    registry: Registry,
    slis: Registry,
    collectors: Mutex<Vec<Arc<dyn Collector>>>,
    traffic: OnceLock<Arc<dyn Traffic>>,
    about: About,
    process: ProcessMetrics,
    probes: ProbeMetrics,
    sync: PerFamily<SyncMetrics>,
    changes: ChangeMetrics,
    flows: PerFamily<FlowMetrics>,
    api: ApiMetrics,
}

impl Metrics {
    /// Which metrics there are depends on the mode, and so it does upstream.
    pub fn new(mode: &ModeMetrics, gates: &FeatureGates) -> Metrics {
        let (mut registry, mut slis) = (Registry::default(), Registry::default());
        let everything = Everything {
            sync: SyncMetrics::register(&mut registry, mode),
            changes: ChangeMetrics::register(&mut registry),
            flows: FlowMetrics::register(&mut registry),
            probes: ProbeMetrics::register(&mut registry, &mut slis),
            api: ApiMetrics::register(&mut registry),
            about: About::register(&mut registry),
            process: ProcessMetrics::register(&mut registry, &mut slis),
            registry: {
                let gated = mode.gated.iter().filter(|gated| gates.is_on(gated.gate));
                for about in gated.flat_map(|gated| gated.metrics).chain(mode.upstream) {
                    registry.growing(*about);
                }
                registry
            },
            slis,
            collectors: Mutex::default(),
            traffic: OnceLock::new(),
        };
        everything.about.gates(gates);
        Metrics(Arc::new(everything))
    }

    /// Those of the mode of this name.
    #[cfg(any(test, feature = "capture"))]
    #[allow(clippy::unwrap_used, reason = "of tests alone")]
    pub fn of_mode(name: &str, gates: &FeatureGates) -> Metrics {
        Metrics::new(dataplane::mode(name).unwrap().metrics(), gates)
    }

    /// What may be on the two pages: `/metrics` and `/metrics/slis`.
    #[cfg(any(test, feature = "capture"))]
    pub fn described(&self) -> [Vec<dataplane::metrics::Description>; 2] {
        [&self.0.registry, &self.0.slis].map(|registry| registry.descriptions().copied().collect())
    }

    /// The page `/metrics`.
    pub fn text(&self) -> String {
        self.0.process.refresh();
        let mut page = Page::default();
        self.0.registry.write(&mut page);
        let collectors = self.0.collectors.lock().unwrap_or_else(PoisonError::into_inner).clone();
        collectors.iter().for_each(|collector| collector.collect(&mut page));
        page.into_text()
    }

    /// The page `/metrics/slis`.
    pub fn slis(&self) -> String {
        let mut page = Page::default();
        self.0.slis.write(&mut page);
        page.into_text()
    }

    /// Have `collector` write its families at the end of `/metrics`.
    pub fn extend(&self, collector: Arc<dyn Collector>) {
        self.0.collectors.lock().unwrap_or_else(PoisonError::into_inner).push(collector);
    }

    /// Where traffic of services is counted, from the start on.
    pub fn set_traffic(&self, traffic: Arc<dyn Traffic>) {
        // There is one start.
        let _ = self.0.traffic.set(traffic);
    }

    pub fn traffic(&self) -> Option<&dyn Traffic> {
        self.0.traffic.get().map(|traffic| &**traffic)
    }

    /// The feature gates are set otherwise from now on.
    pub fn set_gates(&self, gates: &FeatureGates) {
        self.0.about.gates(gates);
    }

    pub fn probes(&self) -> &ProbeMetrics {
        &self.0.probes
    }

    pub fn sync(&self) -> &PerFamily<SyncMetrics> {
        &self.0.sync
    }

    pub fn recent_syncs(&self) -> &RecentSyncs {
        self.0.sync.of(Family::V4).recent()
    }

    pub fn changes(&self) -> &ChangeMetrics {
        &self.0.changes
    }

    pub fn flows(&self) -> &PerFamily<FlowMetrics> {
        &self.0.flows
    }

    pub fn api(&self) -> &ApiMetrics {
        &self.0.api
    }
}
