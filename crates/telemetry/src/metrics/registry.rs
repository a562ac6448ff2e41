//! Which metrics there are, and their series. Written once at the start; afterwards only values change.
//!
//! Nearly every metric here has a number of series that is known in advance, so that the measuring code holds the
//! very value and no lookup or lock lies between. The few whose labels come from outside are [`Growing`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

pub(super) use dataplane::metrics::{Description, Kind};
use dataplane::metrics::{Page, label_text};

use super::histogram;
use super::value::{Counter, Gauge, Histogram};

#[derive(Debug, Default)]
pub(super) struct Registry(Vec<MetricFamily>);

#[derive(Debug)]
struct MetricFamily {
    about: Description,
    series: Vec<(String, Value)>,
    grown: Option<Growing>,
}

#[derive(Clone, Debug)]
enum Value {
    Counter(Counter),
    Gauge(Gauge),
    Histogram(Histogram),
}

impl Registry {
    pub(super) fn counter(&mut self, about: Description, labels: &[&str]) -> Counter {
        let counter = Counter::default();
        self.add(about, labels, Value::Counter(counter.clone()));
        counter
    }

    pub(super) fn gauge(&mut self, about: Description, labels: &[&str]) -> Gauge {
        let gauge = Gauge::default();
        self.add(about, labels, Value::Gauge(gauge.clone()));
        gauge
    }

    pub(super) fn histogram(&mut self, about: Description, labels: &[&str]) -> Histogram {
        let histogram = Histogram::new(about.kind.bounds());
        self.add(about, labels, Value::Histogram(histogram.clone()));
        histogram
    }

    pub(super) fn growing(&mut self, about: Description) -> Growing {
        let grown = Growing { about, series: Arc::default() };
        self.0.push(MetricFamily { about, series: Vec::new(), grown: Some(grown.clone()) });
        grown
    }

    fn add(&mut self, about: Description, labels: &[&str], value: Value) {
        let labels = labels_of(&about, labels);
        match self.0.iter_mut().find(|family| family.about.name == about.name) {
            Some(family) => family.series.push((labels, value)),
            None => self.0.push(MetricFamily { about, series: vec![(labels, value)], grown: None }),
        }
    }

    pub(super) fn write(&self, page: &mut Page) {
        self.0.iter().for_each(|family| family.write(page));
    }

    /// Every metric that may appear, in the order of the page.
    #[cfg(any(test, feature = "capture"))]
    pub(super) fn descriptions(&self) -> impl Iterator<Item = &Description> {
        self.0.iter().map(|family| &family.about)
    }
}

impl MetricFamily {
    fn write(&self, page: &mut Page) {
        let grown = self.grown.as_ref().map(Growing::series).unwrap_or_default();
        let mut all = self.series.iter().chain(&grown).filter(|(_, value)| value.is_set()).peekable();
        if all.peek().is_some() {
            page.family(&self.about);
        }
        all.for_each(|(labels, value)| value.write(page, self.about.name, labels));
    }
}

impl Value {
    fn is_set(&self) -> bool {
        !matches!(self, Value::Gauge(gauge) if gauge.get().is_none())
    }

    fn write(&self, page: &mut Page, name: &str, labels: &str) {
        match self {
            Value::Counter(counter) => page.count(name, labels, counter.get()),
            Value::Gauge(gauge) => page.sample(name, labels, gauge.get().unwrap_or_default()),
            Value::Histogram(histogram) => histogram::write(page, name, labels, &histogram.snapshot()),
        }
    }
}

/// A metric whose label values are met as we go. Its lock is held for a lookup: not for the sync thread.
#[derive(Clone, Debug)]
pub(super) struct Growing {
    about: Description,
    series: Arc<Mutex<BTreeMap<String, Value>>>,
}

impl Growing {
    pub(super) fn counter(&self, labels: &[&str]) -> Counter {
        match self.value(labels, || Value::Counter(Counter::default())) {
            Value::Counter(counter) => counter,
            Value::Gauge(_) | Value::Histogram(_) => Counter::default(),
        }
    }

    pub(super) fn gauge(&self, labels: &[&str]) -> Gauge {
        match self.value(labels, || Value::Gauge(Gauge::default())) {
            Value::Gauge(gauge) => gauge,
            Value::Counter(_) | Value::Histogram(_) => Gauge::default(),
        }
    }

    pub(super) fn histogram(&self, labels: &[&str]) -> Histogram {
        let bounds = self.about.kind.bounds();
        match self.value(labels, || Value::Histogram(Histogram::new(bounds))) {
            Value::Histogram(histogram) => histogram,
            Value::Counter(_) | Value::Gauge(_) => Histogram::new(bounds),
        }
    }

    fn value(&self, labels: &[&str], new: impl FnOnce() -> Value) -> Value {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        series.entry(labels_of(&self.about, labels)).or_insert_with(new).clone()
    }

    fn series(&self) -> Vec<(String, Value)> {
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        series.iter().map(|(labels, value)| (labels.clone(), value.clone())).collect()
    }
}

fn labels_of(about: &Description, values: &[&str]) -> String {
    debug_assert_eq!(about.labels.len(), values.len(), "labels of {}", about.name);
    label_text(about.labels.iter().copied().zip(values.iter().copied()))
}
