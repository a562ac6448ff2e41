//! What is counted a second, from two readings. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::super::{PortTraffic, ServicePortName};
use super::Figures;

/// Readings that lie further apart say nothing about now.
const LONGEST: Duration = Duration::from_secs(60);

/// Of service ports with traffic, both families together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    /// Between the two readings.
    pub seconds: f64,
    pub ports: BTreeMap<ServicePortName, PortRate>,
}

/// A second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PortRate {
    pub connections: f64,
    pub request_packets: f64,
    pub request_bytes: f64,
    pub reply_packets: f64,
    pub reply_bytes: f64,
}

/// A reading, with those ports alone that have counted something: a node sees few of a large cluster's services.
#[derive(Debug)]
pub(super) struct Reading {
    at: Instant,
    ports: BTreeMap<ServicePortName, PortTraffic>,
}

impl Reading {
    pub(super) fn new(at: Instant, figures: Vec<Figures>) -> Reading {
        let mut ports: BTreeMap<ServicePortName, PortTraffic> = BTreeMap::new();
        for (name, traffic) in figures.into_iter().flat_map(|(_, ports)| ports) {
            if traffic != PortTraffic::default() {
                let sum = ports.entry(name).or_default();
                sum.connections += traffic.connections;
                for (sum, more) in
                    [(&mut sum.requests, traffic.requests), (&mut sum.replies, traffic.replies)]
                {
                    sum.packets += more.packets;
                    sum.bytes += more.bytes;
                }
            }
        }
        Reading { at, ports }
    }

    pub(super) fn is_of_now(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < LONGEST
    }

    /// Since an earlier reading.
    pub(super) fn since(&self, before: &Reading) -> Option<Rates> {
        let time = self.at.saturating_duration_since(before.at);
        if time.is_zero() || time > LONGEST {
            return None;
        }
        let seconds = time.as_secs_f64();
        let mut ports = BTreeMap::new();
        for (name, now) in &self.ports {
            let then = before.ports.get(name).copied().unwrap_or_default();
            // A counter that was made again starts at zero.
            let rate = |now: u64, then: u64| now.checked_sub(then).unwrap_or(now) as f64 / seconds;
            let rate = PortRate {
                connections: rate(now.connections, then.connections),
                request_packets: rate(now.requests.packets, then.requests.packets),
                request_bytes: rate(now.requests.bytes, then.requests.bytes),
                reply_packets: rate(now.replies.packets, then.replies.packets),
                reply_bytes: rate(now.replies.bytes, then.replies.bytes),
            };
            if rate != PortRate::default() {
                ports.insert(name.clone(), rate);
            }
        }
        Some(Rates { seconds, ports })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Count;
    use super::*;
    use model::{Family, Protocol};

    fn name(service: &str) -> ServicePortName {
        ServicePortName { service: service.into(), port: "http".into(), protocol: Protocol::Tcp }
    }

    fn reading(at: Instant, counts: &[(&str, u64)]) -> Reading {
        let ports = |scale: u64| {
            let traffic = move |count: u64| PortTraffic {
                requests: Count { packets: count * scale, bytes: 100 * count * scale },
                replies: Count::default(),
                connections: count * scale,
                refused: 0,
            };
            counts.iter().map(|(service, count)| (name(service), traffic(*count))).collect()
        };
        Reading::new(at, vec![(Family::V4, ports(1)), (Family::V6, ports(2))])
    }

    #[test]
    fn rates_are_differences_by_time() {
        let start = Instant::now();
        let first = reading(start, &[("a/idle", 5), ("a/busy", 10), ("a/unused", 0), ("a/again", 100)]);
        assert_eq!(first.ports.len(), 3, "nothing is kept of unused ports");
        let later = start + Duration::from_secs(10);
        let second = reading(later, &[("a/idle", 5), ("a/busy", 30), ("a/new", 1), ("a/again", 10)]);
        let rates = second.since(&first).unwrap();
        assert_eq!(rates.seconds, 10.0);
        let found: Vec<_> =
            rates.ports.iter().map(|(name, rate)| (&*name.service, rate.connections)).collect();
        assert_eq!(found, [("a/again", 3.0), ("a/busy", 6.0), ("a/new", 0.3)]);
        assert_eq!(rates.ports[&name("a/busy")].request_bytes, 600.0);
        assert_eq!(first.since(&first), None);
        let late = reading(start + 2 * LONGEST, &[]);
        assert_eq!(late.since(&first), None);
        assert!(!first.is_of_now(start + LONGEST));
    }
}
