//! Unit tests of `nftables/service_counters/text`.

use super::super::super::Count;
use super::*;
use model::Protocol;

fn name(service: &str) -> ServicePortName {
    ServicePortName { service: service.into(), port: "http".into(), protocol: Protocol::Tcp }
}

#[test]
fn a_port_with_traffic_has_its_series_and_one_without_none() {
    let traffic = PortTraffic {
        requests: Count { packets: 5, bytes: 500 },
        replies: Count { packets: 4, bytes: u64::MAX },
        connections: 1,
        refused: 2,
    };
    let closed = PortTraffic { refused: 3, ..PortTraffic::default() };
    let ports = [
        (name("default/web"), traffic),
        (name("default/idle"), PortTraffic::default()),
        (name("default/closed"), closed),
    ];
    let text = families(&[(Family::V4, ports.into()), (Family::V6, BTreeMap::new())]);
    let labels = "namespace=\"default\",service=\"web\",port=\"http\",protocol=\"TCP\",ip_family=\"IPv4\"";
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let expected = [
        format!("pointsman_service_packets_total{{{labels},direction=\"request\"}} 5"),
        format!("pointsman_service_packets_total{{{labels},direction=\"reply\"}} 4"),
        format!("pointsman_service_bytes_total{{{labels},direction=\"request\"}} 500"),
        format!("pointsman_service_bytes_total{{{labels},direction=\"reply\"}} {}", u64::MAX),
        format!("pointsman_service_connections_total{{{labels}}} 1"),
        format!("pointsman_service_refused_packets_total{{{}}} 3", labels.replace("web", "closed")),
        format!("pointsman_service_refused_packets_total{{{labels}}} 2"),
    ];
    assert_eq!(samples, expected);
    assert_eq!(text.matches("# TYPE").count(), 4);
    assert_eq!(families(&[(Family::V4, BTreeMap::new())]), "");
}
