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
#[path = "../../../tests/unit/service_counters_rates.rs"]
mod tests;
