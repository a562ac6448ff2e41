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
mod tests {
    use super::*;
    use telemetry::logging::capture::heard;

    #[test]
    fn services_that_are_no_longer_too_large_are_told_also_by_a_rewrite() {
        let mut limits = Limits::new(Family::V4, Recorder::nowhere());
        let too_large = |name: &str| (ServiceKey::from(name), Excess { ports: 1, endpoints: 0 });
        let (_, log) = heard(&["v=2"], || {
            limits.report(&[too_large("default/a"), too_large("default/b")], true);
            limits.report(&[too_large("default/a")], true);
            limits.report(&[("default/a".into(), Excess::default())], false);
        });
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 4, "{log}");
        for (line, service) in lines[2..].iter().zip(["default/b", "default/a"]) {
            assert!(line.contains("Resolved") && line.contains(service), "{log}");
        }
        assert_eq!(limits.notices.known().count(), 0);
    }

    #[test]
    fn a_tenant_whose_services_come_and_go_neither_fills_the_log_nor_silences_others() {
        let mut limits = Limits::new(Family::V4, Recorder::nowhere());
        let start = Instant::now();
        let too_large = |name: String| (ServiceKey::from(name), Excess { ports: 1, endpoints: 0 });
        let (_, log) = heard(&["v=2"], || {
            for turn in 0..1000 {
                let one = too_large(format!("loud/s{}", turn % 10));
                limits.report_at(std::slice::from_ref(&one), false, start);
                limits.report_at(&[(one.0, Excess::default())], false, start);
            }
            limits.report_at(&[too_large("quiet/web".into())], false, start);
        });
        let lines = |part: &str| log.lines().filter(|line| line.contains(part)).count();
        assert_eq!(lines("quiet/web"), 1, "{log}");
        assert!((1..=100).contains(&lines("loud/")), "{} lines", lines("loud/"));
    }

    #[test]
    fn a_tenant_with_thousands_of_services_that_are_too_large_does_not_silence_others() {
        let mut limits = Limits::new(Family::V4, Recorder::nowhere());
        let start = Instant::now();
        let too_large = |name: String| (ServiceKey::from(name), Excess { ports: 1, endpoints: 0 });
        let loud: Vec<_> = (0..5000).map(|number| too_large(format!("loud/s{number}"))).collect();
        let (_, log) = heard(&["v=2"], || {
            (0..2).for_each(|_| limits.report_at(&loud, false, start));
            limits.report_at(&[too_large("quiet/web".into())], false, start);
        });
        assert!(log.contains("service=\"quiet/web\""), "{log}");
        assert!(limits.notices.known().count() <= 2000);
    }

    #[test]
    fn what_the_mode_leaves_out_of_a_service_that_comes_and_goes_is_told_a_few_times() {
        let mut limits = Limits::new(Family::V6, Recorder::nowhere());
        let (start, note) = (Instant::now(), "Mode x does not forward SCTP");
        let news = |service: &str, is_over| vec![Shortfall { service: service.into(), note, is_over }];
        let (_, log) = heard(&["v=2"], || {
            for _ in 0..100 {
                limits.report_shortfalls_at(news("loud/web", false), start);
                limits.report_shortfalls_at(news("loud/web", true), start);
            }
            limits.report_shortfalls_at(news("quiet/web", false), start);
            limits.report_shortfalls_at(news("quiet/web", false), start);
        });
        let lines = |part: &str| log.lines().filter(|line| line.contains(part)).count();
        assert!((1..=3).contains(&(lines("loud/web") / 2)), "{log}");
        assert_eq!(lines("quiet/web"), 1, "{log}");
        assert_eq!(lines("IPv6"), log.lines().count(), "{log}");
        assert_eq!(limits.shortfalls.known().count(), 1);
    }

    #[test]
    fn what_the_mode_leaves_out_is_told_later_if_many_came_at_once_unless_it_is_over() {
        let mut limits = Limits::new(Family::V4, Recorder::nowhere());
        let start = Instant::now();
        let news = |number, is_over| {
            let service = format!("loud/s{number:02}").into();
            Shortfall { service, note: "Mode x does not forward SCTP", is_over }
        };
        let (_, log) = heard(&["v=2"], || {
            limits.report_shortfalls_at((0..20).map(|number| news(number, false)).collect(), start);
            limits.report_shortfalls_at((10..19).map(|number| news(number, true)).collect(), start);
            limits.report_shortfalls_at(Vec::new(), start + std::time::Duration::from_secs(600));
        });
        assert_eq!(log.lines().count(), 11, "{log}");
        assert!(log.contains("loud/s19") && !log.contains("loud/s18"), "{log}");
    }
}
