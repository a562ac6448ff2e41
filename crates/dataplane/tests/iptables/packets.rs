//! Packets that no table of flows asks about: node ports on the loopback interface, and what is counted.

use std::num::NonZeroU16;

use kernel::iptables::Tables as _;
use model::{NodePlan, NodePortAddresses, Planned, Service, plan_node};
use simulate::{Host, Journey, Origin, Outcome, Packet, Protocol, walk};

use super::common::{ip, node, service};
use super::*;

pub(crate) fn packet(from: &str, to: &str, port: u16) -> Packet {
    Packet {
        protocol: Protocol::Tcp,
        source: ip(from),
        source_port: 40_000,
        destination: ip(to),
        destination_port: port,
        mark: 0,
        origin: Origin::Interface("eth0".to_owned()),
    }
}

fn send(reconciler: &mut Simulated, packet: Packet) -> Journey {
    send_drawing(reconciler, packet, 0)
}

fn send_drawing(reconciler: &mut Simulated, packet: Packet, drawn: u32) -> Journey {
    walk(tables(reconciler), &Host::new([ip("192.168.50.2")]), packet, &mut |_| drawn)
}

/// Node ports on every address, the loopback interface's too.
struct OnLoopback(Fixture);

impl Planner for OnLoopback {
    fn plan(&self, key: &ServiceKey, family: Family) -> Option<Planned> {
        self.0.plan(key, family)
    }

    fn services(&self) -> Vec<ServiceKey> {
        self.0.services()
    }

    fn node(&self, family: Family) -> NodePlan {
        plan_node(&node(), &NodePortAddresses::All, model::OnLoopback::Rules, &[], family)
    }
}

fn with_node_port() -> Fixture {
    let mut fixture = Fixture::default();
    let mut service = service(1);
    service.ports[0].node_port = NonZeroU16::new(30080);
    fixture.add("default/web", Service { ..service }, &PODS);
    fixture
}

#[test]
fn a_node_port_answers_on_the_loopback_interface_and_that_is_counted() {
    let mut reconciler = reconciler();
    sync(&mut reconciler, &OnLoopback(with_node_port()), &[]);
    let own = Packet { origin: Origin::Host, ..packet("127.0.0.1", "127.0.0.1", 30080) };
    let journey = send(&mut reconciler, own);
    let delivery = journey.delivery().unwrap();
    assert!(delivery.masqueraded && delivery.port == 8080, "{journey:#?}");
    assert_eq!(tables(&mut reconciler).accounted(LOCALHOST_COUNTER), Some(1));
    send(&mut reconciler, packet("192.168.60.9", "192.168.50.2", 30080));
    assert_eq!(tables(&mut reconciler).accounted(LOCALHOST_COUNTER), Some(1), "that was another address");
}

/// With `route_localnet` the kernel takes them in (kubernetes/kubernetes 90259).
#[test]
fn neighbours_do_not_reach_what_listens_on_the_loopback_interface_only() {
    let mut reconciler = reconciler();
    sync(&mut reconciler, &OnLoopback(with_node_port()), &[]);
    assert_eq!(send(&mut reconciler, packet("192.168.60.9", "127.0.0.1", 10249)).outcome, Outcome::Dropped);
    let own = Packet { origin: Origin::Host, ..packet("127.0.0.1", "127.0.0.1", 10249) };
    assert!(matches!(send(&mut reconciler, own).outcome, Outcome::Local(_)));
}

/// The guard comes with the first partial sync that serves them, and a kubelet's rules in its chain stay.
#[test]
fn neighbours_stay_out_when_node_ports_come_to_the_loopback_interface_later() {
    let mut reconciler = reconciler();
    sync(&mut reconciler, &with_node_port(), &[]);
    let of_kubelet = "*filter\n:KUBE-FIREWALL - [0:0]\n-A KUBE-FIREWALL -s 192.0.2.1 -j DROP\nCOMMIT\n";
    tables(&mut reconciler).restore(of_kubelet).unwrap();
    assert!(!sync(&mut reconciler, &OnLoopback(with_node_port()), &[]).full);
    assert_eq!(send(&mut reconciler, packet("192.168.60.9", "127.0.0.1", 10249)).outcome, Outcome::Dropped);
    let saved = tables(&mut reconciler).save(Table::Filter).unwrap();
    assert!(saved.contains("-A KUBE-FIREWALL -s 192.0.2.1/32 -j DROP"), "{saved}");
}

#[test]
fn without_them_the_loopback_interface_is_left_alone() {
    let mut reconciler = reconciler();
    sync(&mut reconciler, &with_node_port(), &[]);
    let own = Packet { origin: Origin::Host, ..packet("127.0.0.1", "127.0.0.1", 30080) };
    assert!(matches!(send(&mut reconciler, own).outcome, Outcome::Local(delivery) if delivery.port == 30080));
    assert!(!tables(&mut reconciler).chains(Table::Filter).contains(&"KUBE-FIREWALL"));
}

#[test]
fn a_health_check_port_is_let_in() {
    let (mut reconciler, mut fixture) = (reconciler(), Fixture::default());
    let checked = Service {
        load_balancer_ips: [ip("203.0.113.1")].into(),
        external_policy: model::TrafficPolicy::Local,
        health_check_node_port: NonZeroU16::new(32000),
        ..service(1)
    };
    fixture.add("default/web", checked, &PODS);
    sync(&mut reconciler, &fixture, &[]);
    tables(&mut reconciler).run(Table::Filter, "-P INPUT DROP").unwrap();
    let to = |port| packet("192.168.60.9", "192.168.50.2", port);
    assert!(matches!(send(&mut reconciler, to(32000)).outcome, Outcome::Local(_)));
    assert_eq!(send(&mut reconciler, to(32001)).outcome, Outcome::Dropped);
}

/// Some load balancers give their address to the node itself.
#[test]
fn a_guarded_address_is_guarded_on_the_node_too() {
    let (mut reconciler, mut fixture) = (reconciler(), Fixture::default());
    let guarded = Service {
        load_balancer_ips: [ip("203.0.113.1")].into(),
        source_ranges: ["198.51.100.0/24".parse().unwrap()].into(),
        ..service(1)
    };
    fixture.add("default/web", guarded, &PODS);
    sync(&mut reconciler, &fixture, &[]);
    let host = Host::new([ip("192.168.50.2"), ip("203.0.113.1")]);
    let mut from =
        |source| walk(tables(&mut reconciler), &host, packet(source, "203.0.113.1", 80), &mut |_| 0);
    assert!(matches!(from("198.51.100.9").outcome, Outcome::Delivered(delivery) if delivery.port == 8080));
    assert_eq!(from("192.168.60.9").outcome, Outcome::Dropped);
}

#[test]
fn a_client_that_keeps_coming_is_not_sent_elsewhere() {
    let (mut reconciler, mut fixture) = (reconciler(), Fixture::default());
    fixture.add("default/sticky", Service { affinity_seconds: Some(10), ..service(1) }, &PODS);
    sync(&mut reconciler, &fixture, &[]);
    let mut ask = |second: u64, drawn| {
        tables(&mut reconciler).set_now(second * 1000);
        let journey = send_drawing(&mut reconciler, packet("10.244.1.99", "10.96.0.1", 80), drawn);
        journey.delivery().unwrap().to
    };
    let first = ask(0, 0);
    assert_eq!([ask(8, u32::MAX), ask(16, u32::MAX), ask(26, u32::MAX)], [first; 3]);
    assert_ne!(ask(37, u32::MAX), first, "its time was up");
}

#[test]
fn each_refused_packet_is_counted_once_by_its_reason() {
    use model::Refusal;
    let (mut reconciler, _) = synced();
    let counts = |reconciler: &mut Simulated| {
        Refusal::COUNTED.map(|why| tables(reconciler).accounted(&refusal_counter(Family::V4, why)).unwrap())
    };
    for (to, port, why) in [
        ("10.96.0.2", 80, Some(Refusal::NoEndpoints)),
        ("192.168.50.2", 30083, Some(Refusal::NoLocalEndpoints)),
        ("203.0.113.7", 80, Some(Refusal::SourceRange)),
        ("10.96.0.1", 81, Some(Refusal::UnlistedPort)),
        ("10.96.77.1", 80, Some(Refusal::UnallocatedAddress)),
        ("10.96.0.1", 80, None),
    ] {
        let mut wanted = counts(&mut reconciler);
        if let Some(place) = Refusal::COUNTED.into_iter().position(|one| Some(one) == why) {
            wanted[place] += 1;
        }
        send(&mut reconciler, packet("198.18.0.1", to, port));
        assert_eq!(counts(&mut reconciler), wanted, "{to}:{port}");
    }
}
