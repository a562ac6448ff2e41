//! What is refused is counted for its service, although IPVS counts the rest.

use super::*;
use crate::common::{ip, service};
use dataplane::nftables::{PortTraffic, TABLE_NAME, read_traffic};
use kernel::nft::{self, Transport as _};
use model::{Service, TrafficPolicy};
use simulate::{Host, Origin, Packet};

const POD: &str = "pod-a";

/// With counters, on a machine that may have served others.
fn counting(machine: &SharedMachine) -> Simulated {
    let setup = Setup {
        detector: pod_cidrs(),
        masquerade_mark: MARK,
        drop_invalid: true,
        of_mode: ModeSettings::default(),
    };
    let ground = SimulatedGround::new(machine.clone(), ());
    Reconciler::new(Ipvs::new(machine.clone(), machine.clone(), ground, &setup).count_refused(true))
}

fn web() -> Service {
    let mut web = service(1);
    web.ports[0].node_port = std::num::NonZeroU16::new(30080);
    web.external_ips = [ip("198.51.100.1")].into();
    web
}

/// A first packet, from a pod or from the node itself.
fn send(machine: &SharedMachine, from: Option<&str>, to: &str, port: u16) {
    let packet = Packet {
        protocol: simulate::Protocol::Tcp,
        source: ip(if from.is_some() { "10.244.1.99" } else { "192.168.50.2" }),
        source_port: 40_000,
        destination: ip(to),
        destination_port: port,
        mark: 0,
        origin: from.map_or(Origin::Host, |name| Origin::Interface(name.into())),
    };
    machine.machine().walk(&Host::new([ip("192.168.50.2")]), packet, &mut |_| 0);
}

/// `None` if the service has no counter.
fn counted(machine: &SharedMachine, service: &str) -> Option<PortTraffic> {
    let all = read_traffic(&mut machine.machine().nft, Family::V4).unwrap();
    all.into_iter().find(|(name, _)| &*name.service == service).map(|(_, traffic)| traffic)
}

fn refused(count: u64) -> Option<PortTraffic> {
    Some(PortTraffic { refused: count, ..PortTraffic::default() })
}

#[test]
fn what_is_refused_is_counted_for_its_service_and_outlives_changes() {
    let machine = empty();
    let (mut reconciler, mut fixture) = (counting(&machine), Fixture::default());
    fixture.add("default/web", web(), &PODS);
    fixture.add("default/other", service(2), &PODS);
    sync(&mut reconciler, &fixture, &[]);
    send(&machine, Some(POD), "10.96.0.1", 80);
    assert_eq!(counted(&machine, "default/web"), refused(0), "it was forwarded");
    fixture.add("default/web", web(), &[]);
    sync(&mut reconciler, &fixture, &["default/web"]);
    let ways = [("10.96.0.1", 80), ("192.168.50.2", 30080), ("198.51.100.1", 80)];
    for (sent, (to, port)) in ways.into_iter().enumerate() {
        send(&machine, Some(POD), to, port);
        send(&machine, None, to, port);
        assert_eq!(counted(&machine, "default/web"), refused(2 * (sent as u64 + 1)), "{to}:{port}");
    }
    send(&machine, Some(POD), "10.96.0.1", 81);
    fixture.add("default/web", web(), &PODS);
    sync(&mut reconciler, &fixture, &["default/web"]);
    reconciler.distrust(Family::V4);
    sync(&mut reconciler, &fixture, &[]);
    let mut reconciler = counting(&machine);
    sync(&mut reconciler, &fixture, &[]);
    assert_eq!(counted(&machine, "default/web"), refused(6), "a change, a rewrite and a restart");
    assert_eq!(counted(&machine, "default/other"), refused(0));
    fixture.services.remove("default/web");
    sync(&mut reconciler, &fixture, &["default/web"]);
    assert_eq!(counted(&machine, "default/web"), None);
}

#[test]
fn source_ranges_and_policy_local_are_counted_too() {
    let machine = empty();
    let (mut reconciler, mut fixture) = (counting(&machine), Fixture::default());
    let ranged = Service {
        load_balancer_ips: [ip("203.0.113.1")].into(),
        source_ranges: vec!["198.18.0.0/24".parse().unwrap()].into(),
        ..service(3)
    };
    fixture.add("default/ranged", ranged, &PODS);
    let local = Service { internal_policy: TrafficPolicy::Local, ..service(4) };
    fixture.add("default/local", local, &PODS[2..]);
    sync(&mut reconciler, &fixture, &[]);
    for (from, to, service) in [
        (Some(POD), "203.0.113.1", "default/ranged"),
        (Some(POD), "10.96.0.4", "default/local"),
        (None, "10.96.0.4", "default/local"),
    ] {
        let before = counted(&machine, service).unwrap().refused;
        send(&machine, from, to, 80);
        assert_eq!(counted(&machine, service), refused(before + 1), "{from:?} to {to}");
    }
}

#[test]
fn counters_go_when_they_are_no_longer_asked_for() {
    let machine = empty();
    let mut fixture = Fixture::default();
    fixture.add("default/web", web(), &[]);
    sync(&mut counting(&machine), &fixture, &[]);
    assert_eq!(counted(&machine, "default/web"), refused(0));
    sync(&mut over(&machine, IpvsSettings::default()), &fixture, &[]);
    assert_eq!(counted(&machine, "default/web"), None);
    let sets = machine.machine().nft.sets(nft::TableFamily::Ip, TABLE_NAME).unwrap();
    assert!(!sets.iter().any(|set| set.starts_with("refused-")), "{sets:?}");
}
