//! Tells people which services ask for more than one service may have: once, in the log and in an event on the service.

use std::collections::HashSet;

use cluster::apiserver::Recorder;
use model::{Excess, Family, ServiceKey};

use crate::events;

/// Services that are named at a time; beyond this many the log has said enough.
const MOST_NAMED: usize = 100;

/// What was said about the services of one family.
pub(crate) struct Limits {
    family: Family,
    recorder: Recorder,
    named: HashSet<ServiceKey>,
}

impl Limits {
    pub(crate) fn new(family: Family, recorder: Recorder) -> Limits {
        Limits { family, recorder, named: HashSet::new() }
    }

    pub(crate) fn report(&mut self, limited: &[(ServiceKey, Excess)]) {
        for (service, excess) in limited {
            if excess.is_none() {
                if self.named.remove(service) {
                    tracing::info!(family = %self.family, %service, "Resolved: the service is no longer too large");
                }
                continue;
            }
            if self.named.len() >= MOST_NAMED || self.named.contains(service) {
                continue;
            }
            let note = sentence(self.family, *excess);
            tracing::warn!(
                family = %self.family, %service, ports = excess.ports, endpoints = excess.endpoints, "{note}"
            );
            self.recorder.record(events::too_large(service, note));
            self.named.insert(service.clone());
        }
    }
}

fn sentence(family: Family, excess: Excess) -> String {
    let Excess { ports, endpoints } = excess;
    let most = model::MOST_WEIGHT;
    format!(
        "The service asks for more than {most} {family} rule elements: {ports} of its ports and {endpoints} of its \
         endpoints are not served. Split it into several services"
    )
}
