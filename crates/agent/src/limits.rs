//! Tells people which services ask for more than one service may have, or for what the mode leaves out: once, in the log
//! and in an event on the service.

use std::collections::HashSet;
use std::time::Instant;

use cluster::apiserver::Recorder;
use dataplane::Shortfall;
use model::{Excess, Family, ServiceKey};

use crate::events;
use crate::notices::Notices;

/// What was said about the services of one family.
pub(crate) struct Limits {
    family: Family,
    recorder: Recorder,
    notices: Notices<ServiceKey, Excess>,
    shortfalls: Notices<(ServiceKey, &'static str), ()>,
}

impl Limits {
    pub(crate) fn new(family: Family, recorder: Recorder) -> Limits {
        Limits { family, recorder, notices: Notices::default(), shortfalls: Notices::default() }
    }

    /// `is_all`: every service that is too large is among these.
    pub(crate) fn report(&mut self, limited: &[(ServiceKey, Excess)], is_all: bool) {
        self.report_at(limited, is_all, Instant::now());
    }

    fn report_at(&mut self, limited: &[(ServiceKey, Excess)], is_all: bool, now: Instant) {
        if is_all {
            let still: HashSet<&ServiceKey> = limited.iter().map(|(service, _)| service).collect();
            let gone = self.notices.known().filter(|service| !still.contains(service));
            let gone: Vec<ServiceKey> = gone.cloned().collect();
            gone.iter().for_each(|service| self.resolve(service));
        }
        for (service, excess) in limited {
            if excess.is_none() {
                self.resolve(service);
            } else if !self.notices.is_named(service) {
                self.notices.put_off(service, *excess);
            }
        }
        let due = self.notices.take_due(usize::MAX, now);
        due.iter().for_each(|(service, excess)| self.name(service, *excess));
    }

    fn name(&self, service: &ServiceKey, excess: Excess) {
        let note = sentence(self.family, excess);
        tracing::warn!(
            family = %self.family, %service, ports = excess.ports, endpoints = excess.endpoints, "{note}"
        );
        self.recorder.record(events::too_large(service, note));
    }

    /// What the mode began to leave out, or no longer does, and what waits to be told.
    pub(crate) fn report_shortfalls(&mut self, news: Vec<Shortfall>) {
        self.report_shortfalls_at(news, Instant::now());
    }

    fn report_shortfalls_at(&mut self, news: Vec<Shortfall>, now: Instant) {
        for Shortfall { service, note, is_over } in news {
            let key = (service, note);
            if !is_over {
                if !self.shortfalls.is_named(&key) {
                    self.shortfalls.put_off(&key, ());
                }
            } else if self.shortfalls.end(&key) {
                tracing::info!(
                    family = %self.family, service = %key.0,
                    "Resolved: all ports of the service are now served"
                );
            }
        }
        let due = self.shortfalls.take_due(usize::MAX, now);
        for ((service, note), ()) in &due {
            tracing::warn!(family = %self.family, %service, "{note}");
            self.recorder.record(events::not_served(service, note));
        }
    }

    fn resolve(&mut self, service: &ServiceKey) {
        if self.notices.end(service) {
            tracing::info!(family = %self.family, %service, "Resolved: the service is no longer too large");
        }
    }
}

fn sentence(family: Family, excess: Excess) -> String {
    let Excess { ports, endpoints } = excess;
    let most = model::MOST_WEIGHT;
    format!(
        "Service needs more than {most} {family} rule elements; {ports} ports and {endpoints} endpoints are not served. \
         Split it into several services"
    )
}

#[cfg(test)]
#[path = "../tests/unit/limits.rs"]
mod tests;
