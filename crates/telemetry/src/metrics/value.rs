//! Values that many threads may write while one reads them: atomics only, so that neither a sync nor a scrape
//! ever waits for the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Only goes up.
#[derive(Clone, Debug, Default)]
pub(super) struct Counter(Arc<AtomicU64>);

impl Counter {
    pub(super) fn increment(&self) {
        self.add(1);
    }

    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Goes up and down; absent from the page until it is set for the first time.
#[derive(Clone, Debug)]
pub(super) struct Gauge(Arc<AtomicU64>);

/// A quiet NaN that no computation yields.
const UNSET: u64 = 0x7ff8_dead_0000_0000;

impl Default for Gauge {
    fn default() -> Gauge {
        Gauge(Arc::new(AtomicU64::new(UNSET)))
    }
}

impl Gauge {
    pub(super) fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    /// `None` before the first [`Gauge::set`].
    pub(super) fn get(&self) -> Option<f64> {
        let bits = self.0.load(Ordering::Relaxed);
        (bits != UNSET).then(|| f64::from_bits(bits))
    }
}

/// How often a value was at most each of some bounds.
#[derive(Clone, Debug)]
pub(super) struct Histogram(Arc<Cells>);

#[derive(Debug)]
struct Cells {
    bounds: &'static [f64],
    /// One for each bound and one for what is beyond them all; not cumulative.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// A histogram at one moment.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// Upper bound and how many values are not above it.
    pub buckets: Vec<(f64, u64)>,
    pub sum: f64,
    pub count: u64,
}

impl Histogram {
    /// `bounds` go up.
    pub(super) fn new(bounds: &'static [f64]) -> Histogram {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::default()).collect();
        Histogram(Arc::new(Cells { bounds, counts, sum: AtomicU64::new(0f64.to_bits()) }))
    }

    pub(super) fn observe(&self, value: f64) {
        let cells = &*self.0;
        let at = cells.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = cells.counts.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let add = |bits| Some((f64::from_bits(bits) + value).to_bits());
        // The closure never declines, so that there is no error.
        let _ = cells.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    pub(super) fn observe_duration(&self, took: Duration) {
        self.observe(took.as_secs_f64());
    }

    /// The total is that of the buckets, so that the two agree even during an observation.
    pub(super) fn snapshot(&self) -> Snapshot {
        let mut count = 0;
        let mut cumulated = self.0.counts.iter().map(|cell| {
            count += cell.load(Ordering::Relaxed);
            count
        });
        let buckets: Vec<(f64, u64)> = self.0.bounds.iter().copied().zip(cumulated.by_ref()).collect();
        let total = cumulated.last().unwrap_or_default();
        Snapshot { buckets, sum: f64::from_bits(self.0.sum.load(Ordering::Relaxed)), count: total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_bounds_belong_to_their_bucket() {
        let histogram = Histogram::new(&[1.0, 2.0]);
        [0.5, 1.0, 1.5, 2.0, 9.0].iter().for_each(|value| histogram.observe(*value));
        let snapshot = histogram.snapshot();
        assert_eq!(snapshot.buckets, [(1.0, 2), (2.0, 4)]);
        assert_eq!((snapshot.sum, snapshot.count), (14.0, 5));
    }

    #[test]
    fn a_gauge_is_absent_until_it_is_set() {
        let gauge = Gauge::default();
        assert_eq!(gauge.get(), None);
        gauge.set(f64::NAN);
        assert!(gauge.get().is_some_and(f64::is_nan));
        gauge.set(0.0);
        assert_eq!(gauge.get(), Some(0.0));
    }
}
