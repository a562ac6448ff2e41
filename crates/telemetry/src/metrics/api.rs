//! What is measured of the apiserver: requests, and how each kind is followed.

use std::time::SystemTime;

use cluster::Kind;
use cluster::apiserver::{Extent, Observer, Phase, RequestSeen};

use super::api_names as names;
use super::clock::seconds;
use super::registry::{Growing, Registry};
use super::value::{Counter, Gauge};

#[derive(Clone, Debug)]
pub struct ApiMetrics {
    requests: Growing,
    duration: Growing,
    held_back: Growing,
    size: Growing,
    kinds: [KindMetrics; Kind::ALL.len()],
}

#[derive(Clone, Debug)]
struct KindMetrics {
    /// In the order of [`names::STATES`].
    states: [Gauge; names::STATES.len()],
    heard: Gauge,
    lists: Counter,
    watches: Counter,
    failures: Counter,
    /// In the order of [`names::EXTENTS`].
    passed_over: [Counter; names::EXTENTS.len()],
    unusable: [Gauge; names::EXTENTS.len()],
}

impl ApiMetrics {
    pub(super) fn register(registry: &mut Registry) -> ApiMetrics {
        ApiMetrics {
            requests: registry.growing(names::REQUESTS),
            duration: registry.growing(names::DURATION),
            held_back: registry.growing(names::HELD_BACK),
            size: registry.growing(names::SIZE),
            kinds: Kind::ALL.map(|kind| KindMetrics::register(registry, kind)),
        }
    }

    fn kind(&self, kind: Kind) -> &KindMetrics {
        &self.kinds[kind.index()]
    }
}

impl KindMetrics {
    fn register(registry: &mut Registry, kind: Kind) -> KindMetrics {
        let kind = kind.to_string();
        let of = [&*kind];
        KindMetrics {
            states: names::STATES.map(|(_, word)| registry.gauge(names::STATE, &[&kind, word])),
            heard: registry.gauge(names::LAST_EVENT, &of),
            lists: registry.counter(names::LISTS, &of),
            watches: registry.counter(names::WATCHES, &of),
            failures: registry.counter(names::FAILURES, &of),
            passed_over: names::EXTENTS.map(|(_, word)| registry.counter(names::PASSED_OVER, &[&kind, word])),
            unusable: names::EXTENTS.map(|(_, word)| registry.gauge(names::UNUSABLE, &[&kind, word])),
        }
    }
}

impl Observer for ApiMetrics {
    fn request(&self, seen: &RequestSeen<'_>) {
        let code = seen.code.map_or("<error>".to_owned(), |code| code.to_string());
        let by_verb = [seen.method, seen.host];
        self.requests.counter(&[&code, seen.method, seen.host]).increment();
        self.duration.histogram(&by_verb).observe_duration(seen.took);
        self.held_back.histogram(&by_verb).observe_duration(seen.held_back);
        self.size.histogram(&by_verb).observe(seen.size as f64);
    }

    fn phase(&self, kind: Kind, phase: Phase) {
        let metrics = self.kind(kind);
        for (gauge, (named, _)) in metrics.states.iter().zip(names::STATES) {
            gauge.set(if named == phase { 1.0 } else { 0.0 });
        }
        match phase {
            Phase::Listing => metrics.lists.increment(),
            Phase::Watching => metrics.watches.increment(),
            Phase::Failed => metrics.failures.increment(),
            Phase::Absent => {}
        }
    }

    fn heard(&self, kind: Kind) {
        self.kind(kind).heard.set(seconds(SystemTime::now()));
    }

    fn passed_over(&self, kind: Kind, extent: Extent) {
        let counters = self.kind(kind).passed_over.iter().zip(names::EXTENTS);
        counters.filter(|(_, (named, _))| *named == extent).for_each(|(counter, _)| counter.increment());
    }

    fn unusable(&self, kind: Kind, extent: Extent, count: usize) {
        let gauges = self.kind(kind).unusable.iter().zip(names::EXTENTS);
        gauges.filter(|(_, (named, _))| *named == extent).for_each(|(gauge, _)| gauge.set(count as f64));
    }
}
