//! A small cluster as a planner, and a throw-away namespace to program it into.
#![allow(clippy::unwrap_used, reason = "test code")]
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;
use std::net::IpAddr;

use dataplane::Reconciler;
use dataplane::nftables::Nftables;
use ipnet::IpNet;
use kernel::netns::Namespace;
use kernel::nft::Connection;
use model::*;
use model::{Planned, Planner};

pub(crate) const MARK: u32 = 0x4000;

/// A service, its slice's ports, and endpoints with their nodes.
type Entry = (Service, Vec<SlicePort>, Vec<(IpAddr, &'static str)>);

#[derive(Default)]
pub(crate) struct Fixture {
    pub(crate) services: BTreeMap<ServiceKey, Entry>,
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The four bytes of an IPv4 address.
pub(crate) fn octets(address: IpAddr) -> [u8; 4] {
    match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(address) => panic!("{address} is not an IPv4 address"),
    }
}

pub(crate) fn node() -> NodeView {
    NodeView {
        name: "here".into(),
        zone: None,
        primary: [Some(ip("192.168.50.2")), Some(ip("fd00:50::2"))],
        addresses: vec![],
    }
}

/// A TCP service on port 80 with both families.
pub(crate) fn service(last: u8) -> Service {
    Service {
        cluster_ips: [ip(&format!("10.96.0.{last}")), ip(&format!("fd00:96::{last:x}"))].into(),
        ports: [ServicePort { name: "http".into(), protocol: Protocol::Tcp, port: 80, node_port: None }]
            .into(),
        external_ips: [].into(),
        load_balancer_ips: [].into(),
        source_ranges: [].into(),
        affinity_seconds: None,
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
        created: 0,
    }
}

impl Fixture {
    pub(crate) fn add(&mut self, name: &str, service: Service, endpoints: &[(&str, &'static str)]) {
        let ports = service.ports.iter().map(|port| SlicePort {
            name: port.name.clone(),
            protocol: port.protocol,
            port: 8080,
        });
        let ports = ports.collect();
        let endpoints = endpoints.iter().map(|(address, node)| (ip(address), *node)).collect();
        self.services.insert(name.into(), (service, ports, endpoints));
    }

    /// Every feature once.
    pub(crate) fn everything() -> Fixture {
        let pods = [
            ("10.244.1.11", "here"),
            ("10.244.2.21", "there"),
            ("fd00:244:1::11", "here"),
            ("fd00:244:2::21", "there"),
        ];
        let mut fixture = Fixture::default();
        fixture.add("default/plain", service(1), &pods);
        fixture.add("default/empty", service(2), &[]);
        let with_port = |mut service: Service, node_port: u16, last: u8| {
            service.ports[0].node_port = std::num::NonZeroU16::new(node_port);
            service.external_ips =
                [ip(&format!("198.51.100.{last}")), ip(&format!("2001:db8:100::{last:x}"))].into();
            service.load_balancer_ips =
                [ip(&format!("203.0.113.{last}")), ip(&format!("2001:db8:113::{last:x}"))].into();
            service
        };
        fixture.add("default/open", with_port(service(3), 30080, 3), &pods);
        let local = Service { external_policy: TrafficPolicy::Local, ..with_port(service(4), 30081, 4) };
        fixture.add("default/local", local.clone(), &pods);
        let sticky = Service { affinity_seconds: Some(10800), ..with_port(service(5), 30082, 5) };
        fixture.add("default/sticky", sticky, &pods);
        let away = Service { ..with_port(local, 30083, 6) };
        let away = Service { cluster_ips: service(6).cluster_ips, ..away };
        fixture.add("default/away", away, &pods[1..2]);
        let ranges: Vec<IpNet> = ["192.168.60.0/24", "10.0.0.0/9", "192.168.50.2/32", "fd00:60::/64"]
            .map(|net| net.parse().unwrap())
            .into();
        let guarded = Service { source_ranges: ranges.into(), ..with_port(service(7), 30084, 7) };
        fixture.add("default/guarded", guarded, &pods);
        let sticky_local = Service {
            affinity_seconds: Some(3),
            external_policy: TrafficPolicy::Local,
            ..with_port(service(8), 30085, 8)
        };
        fixture.add("default/sticky-local", sticky_local, &pods);
        fixture
    }
}

impl Planner for Fixture {
    fn plan(&self, key: &ServiceKey, family: Family) -> Option<Planned> {
        let (service, ports, endpoints) = self.services.get(key)?;
        let endpoints = endpoints.iter().map(|(ip, node)| Endpoint {
            ip: *ip,
            ready: true,
            serving: true,
            terminating: false,
            node: Some(node),
            hints: None,
        });
        let slice = EndpointSlice { ports, endpoints: endpoints.collect() };
        let plan = plan(service, &[slice], &node(), &Settings::default(), family);
        Some(Planned { plan, created: service.created })
    }

    fn services(&self) -> Vec<ServiceKey> {
        self.services.keys().cloned().collect()
    }

    fn node(&self, family: Family) -> NodePlan {
        let cidrs = ["10.96.0.0/16", "fd00:96::/112"].map(|net| net.parse().unwrap());
        plan_node(&node(), &NodePortAddresses::Primary, model::OnLoopback::Never, &cidrs, family)
    }
}

pub(crate) fn pod_cidrs() -> LocalDetector {
    LocalDetector::Cidrs(["10.244.0.0/16", "fd00:244::/32"].map(|net| net.parse().unwrap()).into())
}

/// Run a test with a reconciler in a network namespace of its own.
pub(crate) fn in_namespace(test: impl FnOnce(Reconciler<Nftables<Connection>>) + Send) {
    in_namespace_counting(false, test);
}

pub(crate) fn in_namespace_counting(
    count_traffic: bool,
    test: impl FnOnce(Reconciler<Nftables<Connection>>) + Send,
) {
    let namespace = match Namespace::new() {
        Ok(namespace) => namespace,
        Err(error) => return println!("SKIPPED: no network namespace: {error}"),
    };
    namespace.run(|| {
        let connection = Connection::open().unwrap();
        test(Reconciler::new(Nftables::new(connection, &pod_cidrs(), MARK).count_traffic(count_traffic)));
    });
}
