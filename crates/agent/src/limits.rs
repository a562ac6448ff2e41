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

    /// `is_all`: every service that is too large is among these.
    pub(crate) fn report(&mut self, limited: &[(ServiceKey, Excess)], is_all: bool) {
        if is_all {
            let still: HashSet<&ServiceKey> = limited.iter().map(|(service, _)| service).collect();
            let gone: Vec<ServiceKey> =
                self.named.iter().filter(|service| !still.contains(service)).cloned().collect();
            gone.iter().for_each(|service| self.resolve(service));
        }
        for (service, excess) in limited {
            if excess.is_none() {
                self.resolve(service);
            } else if self.named.len() < MOST_NAMED && !self.named.contains(service) {
                self.name(service, *excess);
            }
        }
    }

    fn name(&mut self, service: &ServiceKey, excess: Excess) {
        let note = sentence(self.family, excess);
        tracing::warn!(
            family = %self.family, %service, ports = excess.ports, endpoints = excess.endpoints, "{note}"
        );
        self.recorder.record(events::too_large(service, note));
        self.named.insert(service.clone());
    }

    fn resolve(&mut self, service: &ServiceKey) {
        if self.named.remove(service) {
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
mod tests {
    use super::*;
    use crate::logging::capture::heard;

    #[test]
    fn services_that_are_no_longer_too_large_are_told_also_by_a_rewrite() {
        let mut limits = Limits::new(Family::V4, Recorder::nowhere());
        let too_large = |name: &str| (ServiceKey::from(name), Excess { ports: 1, endpoints: 0 });
        let (_, log) = heard(&["v=2"], |_| {
            limits.report(&[too_large("default/a"), too_large("default/b")], true);
            limits.report(&[too_large("default/a")], true);
            limits.report(&[("default/a".into(), Excess::default())], false);
        });
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 4, "{log}");
        for (line, service) in lines[2..].iter().zip(["default/b", "default/a"]) {
            assert!(line.contains("Resolved") && line.contains(service), "{log}");
        }
        assert!(limits.named.is_empty());
    }
}
