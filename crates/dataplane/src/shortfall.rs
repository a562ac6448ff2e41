//! Services of which a mode leaves something out: what has begun and what is over since somebody asked.

use std::collections::{BTreeMap, HashSet};

use model::ServiceKey;

/// The mode began to leave something of a service out, or no longer does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    pub service: ServiceKey,
    /// What and why: "Mode x does not ...".
    pub note: &'static str,
    pub is_over: bool,
}

/// Of one kind and family. Both what is known and what is new are bounded by the services that there are or were since the
/// last time somebody asked.
pub(crate) struct Shortfalls {
    note: &'static str,
    known: HashSet<ServiceKey>,
    /// Whether it is over, for those that changed; the last change counts.
    news: BTreeMap<ServiceKey, bool>,
}

impl Shortfalls {
    pub(crate) fn new(note: &'static str) -> Shortfalls {
        Shortfalls { note, known: HashSet::new(), news: BTreeMap::new() }
    }

    pub(crate) fn begin(&mut self, service: &ServiceKey) {
        if self.known.insert(service.clone()) {
            self.news.insert(service.clone(), false);
        }
    }

    pub(crate) fn end(&mut self, service: &ServiceKey) {
        if self.known.remove(service) {
            self.news.insert(service.clone(), true);
        }
    }

    /// It is over for all that are not kept.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&ServiceKey) -> bool) {
        let gone = self.known.extract_if(|service| !is_kept(service));
        self.news.extend(gone.map(|service| (service, true)));
    }

    pub(crate) fn take(&mut self) -> Vec<Shortfall> {
        let news = std::mem::take(&mut self.news).into_iter();
        news.map(|(service, is_over)| Shortfall { service, note: self.note, is_over }).collect()
    }
}
