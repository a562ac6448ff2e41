//! What is counted of a service's traffic, in the interpreter: first packets only, as it knows no others.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{Fixture, MARK, ip, pod_cidrs, service};
use dataplane::Reconciler;
use dataplane::nftables::{Nftables, PortTraffic, TABLE_NAME, read_traffic};
use kernel::nft::{self, Transport};
use model::{Family, Service, ServiceKey};
use simulate::nft::Simulator;
use simulate::{Host, Origin, Packet, Protocol, walk};

type Simulated = Reconciler<Nftables<Simulator>>;

const PODS: [(&str, &str); 2] = [("10.244.1.11", "here"), ("10.244.2.21", "there")];
const POD: &str = "pod-a";

fn over(simulator: Simulator) -> Simulated {
    Reconciler::new(Nftables::new(simulator, &pod_cidrs(), MARK).count_traffic(true))
}

fn web() -> Service {
    let mut web = service(1);
    web.ports[0].node_port = std::num::NonZeroU16::new(30080);
    web.external_ips = [ip("198.51.100.1")].into();
    web
}

fn fixture() -> Fixture {
    let mut fixture = Fixture::default();
    fixture.add("default/web", web(), &PODS);
    fixture.add("default/other", service(2), &PODS);
    fixture
}

fn sync(reconciler: &mut Simulated, fixture: &Fixture, dirty: &[&str]) {
    let dirty: Vec<ServiceKey> = dirty.iter().map(|name| (*name).into()).collect();
    reconciler.sync(Family::V4, &dirty, fixture).unwrap();
}

/// A first packet, from a pod or from the node itself.
fn send(reconciler: &mut Simulated, from: Option<&str>, to: &str, port: u16) {
    let packet = Packet {
        protocol: Protocol::Tcp,
        source: ip(if from.is_some() { "10.244.1.99" } else { "192.168.50.2" }),
        source_port: 40_000,
        destination: ip(to),
        destination_port: port,
        mark: 0,
        origin: from.map_or(Origin::Host, |name| Origin::Interface(name.into())),
    };
    walk(reconciler.backend().transport(), &Host::new([ip("192.168.50.2")]), packet, &mut |_| 0);
}

/// Packets and connections; `None` if the service has no counters.
fn counted(reconciler: &mut Simulated, service: &str) -> Option<(u64, u64)> {
    let all = read_traffic(reconciler.backend().transport(), Family::V4).unwrap();
    let own = all.iter().find(|(name, _)| &*name.service == service);
    own.map(|(_, PortTraffic { requests, connections, .. })| (requests.packets, *connections))
}

#[test]
fn every_way_to_a_service_is_counted_once_and_others_are_not() {
    let mut reconciler = over(Simulator::new());
    sync(&mut reconciler, &fixture(), &[]);
    assert_eq!(counted(&mut reconciler, "default/web"), Some((0, 0)));
    let ways = [("10.96.0.1", 80), ("192.168.50.2", 30080), ("198.51.100.1", 80)];
    for (sent, (to, port)) in ways.into_iter().enumerate() {
        send(&mut reconciler, Some(POD), to, port);
        send(&mut reconciler, None, to, port);
        let expected = 2 * (sent as u64 + 1);
        assert_eq!(counted(&mut reconciler, "default/web"), Some((expected, expected)), "{to}:{port}");
    }
    for (to, port) in [("10.96.0.1", 81), ("10.244.2.21", 8080), ("192.168.50.2", 30081)] {
        send(&mut reconciler, Some(POD), to, port);
    }
    assert_eq!(counted(&mut reconciler, "default/web"), Some((6, 6)));
    assert_eq!(counted(&mut reconciler, "default/other"), Some((0, 0)));
}

#[test]
fn what_is_refused_is_counted_for_its_service_and_outlives_changes() {
    let (mut reconciler, mut fixture) = (over(Simulator::new()), fixture());
    let refused = |reconciler: &mut Simulated, service: &str| {
        let all = read_traffic(reconciler.backend().transport(), Family::V4).unwrap();
        all.iter().find(|(name, _)| &*name.service == service).unwrap().1.refused
    };
    sync(&mut reconciler, &fixture, &[]);
    send(&mut reconciler, Some(POD), "10.96.0.1", 80);
    assert_eq!(refused(&mut reconciler, "default/web"), 0, "it was forwarded");
    fixture.add("default/web", web(), &[]);
    sync(&mut reconciler, &fixture, &["default/web"]);
    let ways = [("10.96.0.1", 80), ("192.168.50.2", 30080), ("198.51.100.1", 80)];
    for (to, port) in ways {
        send(&mut reconciler, Some(POD), to, port);
    }
    send(&mut reconciler, Some(POD), "10.96.0.1", 81);
    assert_eq!(refused(&mut reconciler, "default/web"), ways.len() as u64);
    fixture.add("default/web", web(), &PODS);
    sync(&mut reconciler, &fixture, &["default/web"]);
    reconciler.distrust(Family::V4);
    sync(&mut reconciler, &fixture, &[]);
    assert_eq!(refused(&mut reconciler, "default/web"), ways.len() as u64);
    assert_eq!(refused(&mut reconciler, "default/other"), 0);
    let ranged = Service {
        load_balancer_ips: [ip("203.0.113.1")].into(),
        source_ranges: vec!["198.18.0.0/24".parse().unwrap()].into(),
        ..service(3)
    };
    fixture.add("default/ranged", ranged, &PODS);
    sync(&mut reconciler, &fixture, &["default/ranged"]);
    send(&mut reconciler, Some(POD), "203.0.113.1", 80);
    assert_eq!(refused(&mut reconciler, "default/ranged"), 1, "outside its source ranges");
}

/// The endpoint is the node itself: its packet goes out and comes in again.
#[test]
fn a_packet_of_the_node_to_itself_is_counted_once() {
    let mut reconciler = over(Simulator::new());
    let mut fixture = Fixture::default();
    fixture.add("default/web", web(), &[("192.168.50.2", "here")]);
    sync(&mut reconciler, &fixture, &[]);
    send(&mut reconciler, None, "10.96.0.1", 80);
    assert_eq!(counted(&mut reconciler, "default/web"), Some((1, 1)));
}

#[test]
fn counts_outlive_changes_rewrites_and_restarts_but_not_the_service() {
    let (mut reconciler, mut fixture) = (over(Simulator::new()), fixture());
    sync(&mut reconciler, &fixture, &[]);
    send(&mut reconciler, Some(POD), "10.96.0.1", 80);
    let expect = |reconciler: &mut Simulated, when: &str| {
        assert_eq!(counted(reconciler, "default/web"), Some((1, 1)), "{when}");
    };
    fixture.add("default/web", web(), &PODS[..1]);
    sync(&mut reconciler, &fixture, &["default/web"]);
    expect(&mut reconciler, "an endpoint goes");
    fixture.add("default/web", web(), &[]);
    sync(&mut reconciler, &fixture, &["default/web"]);
    expect(&mut reconciler, "the last endpoint goes");
    fixture.add("default/web", Service { external_ips: [].into(), ..web() }, &PODS);
    sync(&mut reconciler, &fixture, &["default/web"]);
    expect(&mut reconciler, "an address goes");
    reconciler.distrust(Family::V4);
    sync(&mut reconciler, &fixture, &[]);
    expect(&mut reconciler, "a rewrite");
    fixture.services.remove("default/other");
    let mut reconciler = over(reconciler.backend().transport().clone());
    sync(&mut reconciler, &fixture, &[]);
    expect(&mut reconciler, "a restart");
    assert_eq!(counted(&mut reconciler, "default/other"), None, "removed while nobody ran");
    fixture.services.remove("default/web");
    sync(&mut reconciler, &fixture, &["default/web"]);
    assert_eq!(counted(&mut reconciler, "default/web"), None);
    fixture.add("default/web", web(), &PODS);
    sync(&mut reconciler, &fixture, &["default/web"]);
    assert_eq!(counted(&mut reconciler, "default/web"), Some((0, 0)), "a new service starts at zero");
}

#[test]
fn an_endpoint_change_costs_no_more_than_without_counters() {
    let bytes = |count_traffic| {
        let backend = Nftables::new(Simulator::new(), &pod_cidrs(), MARK).count_traffic(count_traffic);
        let (mut reconciler, mut fixture) = (Reconciler::new(backend), fixture());
        sync(&mut reconciler, &fixture, &[]);
        fixture.add("default/web", web(), &[("10.244.1.12", "here"), PODS[1]]);
        reconciler.sync(Family::V4, &["default/web".into()], &fixture).unwrap().committed.bytes
    };
    assert_eq!(bytes(true), bytes(false));
}

/// Manifests may hold what no apiserver lets through; nothing of it may stop the rules.
#[test]
fn a_name_too_long_for_a_counter_goes_uncounted() {
    let mut reconciler = over(Simulator::new());
    let mut fixture = fixture();
    let long = format!("default/{}", "long".repeat(60));
    fixture.add(&long, service(3), &PODS);
    sync(&mut reconciler, &fixture, &[]);
    assert_eq!(counted(&mut reconciler, &long), None);
    fixture.services.remove(&*long);
    sync(&mut reconciler, &fixture, &[&long]);
    assert!(counted(&mut reconciler, "default/web").is_some());
}

#[test]
fn nothing_is_counted_unless_asked_for() {
    let mut reconciler = Reconciler::new(Nftables::new(Simulator::new(), &pod_cidrs(), MARK));
    sync(&mut reconciler, &fixture(), &[]);
    send(&mut reconciler, Some(POD), "10.96.0.1", 80);
    let simulator = reconciler.backend().transport();
    assert!(read_traffic(simulator, Family::V4).unwrap().is_empty());
    let sets = simulator.sets(nft::TableFamily::Ip, TABLE_NAME).unwrap();
    assert!(!sets.iter().any(|set| set.starts_with("traffic-")), "{sets:?}");
    let chains = simulator.chains(nft::TableFamily::Ip, TABLE_NAME).unwrap();
    assert!(!chains.iter().any(|chain| chain.starts_with("count-")), "{chains:?}");
}
