//! Unit tests of `nftables/service_counters/rates`.

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
    let found: Vec<_> = rates.ports.iter().map(|(name, rate)| (&*name.service, rate.connections)).collect();
    assert_eq!(found, [("a/again", 3.0), ("a/busy", 6.0), ("a/new", 0.3)]);
    assert_eq!(rates.ports[&name("a/busy")].request_bytes, 600.0);
    assert_eq!(first.since(&first), None);
    let late = reading(start + 2 * LONGEST, &[]);
    assert_eq!(late.since(&first), None);
    assert!(!first.is_of_now(start + LONGEST));
}
