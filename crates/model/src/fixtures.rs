//! Short ways to write services and endpoints in tests.

use std::net::IpAddr;

use crate::{Endpoint, EndpointSlice, NodeView, Protocol, Service, ServicePort, SlicePort, TrafficPolicy};

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn ips(texts: &[&str]) -> Box<[IpAddr]> {
    texts.iter().map(|text| ip(text)).collect()
}

/// Node `n1` in zone `z1`.
pub(crate) fn node() -> NodeView {
    NodeView {
        name: "n1".into(),
        zone: Some("z1".into()),
        primary: [Some(ip("192.0.2.1")), Some(ip("2001:db8::1"))],
        addresses: Vec::new(),
    }
}

/// A dual-stack service with the TCP port 80, reachable from inside only.
pub(crate) fn service() -> Service {
    Service {
        cluster_ips: ips(&["10.96.0.1", "fd00::1"]),
        ports: Box::new([port("", Protocol::Tcp, 80, 0)]),
        external_ips: ips(&[]),
        load_balancer_ips: ips(&[]),
        source_ranges: Box::default(),
        affinity_seconds: None,
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
        created: 0,
    }
}

/// `node_port` 0 is none.
pub(crate) fn port(name: &str, protocol: Protocol, port: u16, node_port: u16) -> ServicePort {
    ServicePort { name: name.into(), protocol, port, node_port: node_port.try_into().ok() }
}

pub(crate) fn slice_port(name: &str, protocol: Protocol, port: u16) -> SlicePort {
    SlicePort { name: name.into(), protocol, port }
}

/// A ready endpoint on an unknown node.
pub(crate) fn ready(address: &str) -> Endpoint<'static> {
    Endpoint { ip: ip(address), ready: true, serving: true, terminating: false, node: None, hints: None }
}

/// One that is going away but still answers.
pub(crate) fn terminating(address: &str) -> Endpoint<'static> {
    Endpoint { ready: false, terminating: true, ..ready(address) }
}

pub(crate) fn on<'a>(node: &'a str, endpoint: Endpoint<'a>) -> Endpoint<'a> {
    Endpoint { node: Some(node), ..endpoint }
}

pub(crate) fn slice<'a>(ports: &'a [SlicePort], endpoints: &[Endpoint<'a>]) -> EndpointSlice<'a> {
    EndpointSlice { ports, endpoints: endpoints.to_vec() }
}
