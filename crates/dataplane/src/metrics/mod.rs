//! What a mode adds to the page `/metrics`: metrics in words, and collectors that write them. Serving the page is the
//! agent's work.

mod page;

pub use page::{Page, label_text};

/// What is said of a metric, apart from its values.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    pub name: Word,
    pub kind: Kind,
    pub labels: &'static [Word],
    pub help: Word,
}

type Word = &'static str;

impl Description {
    pub const fn counter(name: Word, labels: &'static [Word], help: Word) -> Description {
        Description { name, kind: Kind::Counter, labels, help }
    }

    pub const fn gauge(name: Word, labels: &'static [Word], help: Word) -> Description {
        Description { name, kind: Kind::Gauge, labels, help }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Counter,
    Gauge,
    /// With these upper bounds.
    Histogram(&'static [f64]),
}

impl Kind {
    pub fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        }
    }

    pub fn bounds(self) -> &'static [f64] {
        match self {
            Kind::Histogram(bounds) => bounds,
            Kind::Counter | Kind::Gauge => &[],
        }
    }
}

/// Something that writes families of its own, whose series come and go with what it describes.
pub trait Collector: Send + Sync {
    /// It must not block.
    fn collect(&self, page: &mut Page);
}

/// What a mode measures that not every mode does. The agent registers it; a metric without a value is not shown.
#[derive(Debug)]
pub struct ModeMetrics {
    /// Full and partial syncs are timed apart, too.
    pub times_partial_syncs: bool,
    /// Counts syncs that failed; by family.
    pub failures: Description,
    /// Counts syncs after which something was left behind; by family.
    pub cleanup_failures: Option<Description>,
    pub rules: Option<RuleMetrics>,
    /// Whatever else upstream's mode of that name has; collectors write them.
    pub upstream: &'static [Description],
    /// Upstream's behind a feature gate.
    pub gated: Option<Gated>,
    /// Those that only ours has; collectors write them.
    pub own: &'static [Description],
}

/// Of a mode whose services are rules in two tables ([`RuleCount`](crate::RuleCount)).
#[derive(Debug)]
pub struct RuleMetrics {
    pub tables: [&'static str; 2],
    /// Rules that are there; by table and family.
    pub total: Description,
    /// Rules that the last sync wrote; by table and family.
    pub last: Description,
    /// Counts partial syncs that failed; by family.
    pub partial_failures: Description,
}

/// Metrics that are there if a feature gate is on.
#[derive(Debug)]
pub struct Gated {
    pub gate: &'static str,
    pub metrics: &'static [Description],
}
