//! Packets through the simulated nf_tables and IPVS together: what each chain sees, and where the packet ends.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::net::IpAddr;

use kernel::ipvs::{self, Destination, Settings, Transport as _, VirtualServer};
use kernel::nft::*;
use simulate::ipvs::{Node, Routing};
use simulate::{Flows, HookPoint, Host, Journey, Origin, Outcome, Packet, Protocol, Rejection, walk_with};

const NODE: &str = "192.0.2.1";
const CLIENT: &str = "192.0.2.9";
const CLUSTER: &str = "10.96.0.1";
const EXTERNAL: &str = "198.51.100.7";
const POD: &str = "10.244.1.7";
/// The packet is to be masqueraded.
const MASQUERADE: u32 = 0x4000;
/// The packet is to be taken for the machine's own.
const LOCAL: u32 = 0x2000;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn octets(text: &str) -> Vec<u8> {
    let IpAddr::V4(address) = ip(text) else { panic!("{text}") };
    address.octets().to_vec()
}

fn to(address: &str) -> Vec<Expression<'static>> {
    let value = octets(address);
    vec![
        Expression::Payload { base: Base::Network, offset: 16, length: 4, to: Reg(1) },
        Expression::Compare { op: CompareOp::Equal, reg: Reg(1), value },
    ]
}

fn set_bit(bit: u32) -> Vec<Expression<'static>> {
    let (mask, xor) = ((!bit).to_ne_bytes().to_vec(), bit.to_ne_bytes().to_vec());
    vec![
        Expression::Meta { key: MetaKey::Mark, to: Reg(1) },
        Expression::Bitwise { from: Reg(1), to: Reg(1), mask, xor },
        Expression::SetMark { from: Reg(1) },
    ]
}

fn marked(bit: u32) -> Vec<Expression<'static>> {
    vec![
        Expression::Meta { key: MetaKey::Mark, to: Reg(1) },
        Expression::Bitwise { from: Reg(1), to: Reg(1), mask: bit.to_ne_bytes().to_vec(), xor: vec![0; 4] },
        Expression::Compare { op: CompareOp::NotEqual, reg: Reg(1), value: vec![0; 4] },
    ]
}

fn leaves_the_machine() -> Vec<Expression<'static>> {
    let mut value = b"lo".to_vec();
    value.resize(16, 0);
    vec![
        Expression::Meta { key: MetaKey::OifName, to: Reg(1) },
        Expression::Compare { op: CompareOp::NotEqual, reg: Reg(1), value },
    ]
}

/// A node with the chains of the ipvs mode, in short.
struct Bench {
    nft: simulate::nft::Simulator,
    ipvs: simulate::ipvs::Simulator,
    routing: Routing,
    flows: Flows,
}

impl Bench {
    fn new() -> Bench {
        let mut batch = Batch::new(TableFamily::Ip, "t");
        batch.add_table("");
        for (name, kind, number, priority) in [
            ("nat-prerouting", HookKind::Nat, 0, -100),
            ("mark-local", HookKind::Filter, 0, -90),
            ("filter-input", HookKind::Filter, 1, 0),
            ("input-late", HookKind::Filter, 1, 110),
            ("nat-output", HookKind::Nat, 3, -100),
            ("reroute", HookKind::Route, 3, -90),
            ("filter-output", HookKind::Filter, 3, 0),
            ("nat-postrouting", HookKind::Nat, 4, 100),
        ] {
            batch.add_chain(&Chain { name, hook: Some(Hook { kind, number, priority }) });
        }
        let drop = Expression::Verdict(VerdictCode::Drop);
        let masquerade = Expression::Masquerade { fully_random: false };
        for (chain, expressions) in [
            ("nat-prerouting", [to(CLUSTER), set_bit(MASQUERADE)].concat()),
            ("mark-local", [to(EXTERNAL), set_bit(LOCAL)].concat()),
            ("input-late", [to(CLUSTER), vec![Expression::Reject(Reject::TcpReset)]].concat()),
            ("nat-output", [to(CLUSTER), set_bit(MASQUERADE)].concat()),
            ("reroute", [to(NODE), leaves_the_machine(), set_bit(LOCAL)].concat()),
            // Nobody may see a service's address behind IPVS.
            ("filter-output", [to(CLUSTER), vec![drop]].concat()),
            ("nat-postrouting", [marked(MASQUERADE), vec![masquerade]].concat()),
        ] {
            batch.add_rule(&Rule { chain, expressions });
        }
        let mut nft = simulate::nft::Simulator::new();
        nft.commit_bytes(batch.bytes()).unwrap();
        let routing = Routing { local: vec!["10.96.0.0/12".parse().unwrap()], mark: LOCAL };
        Bench { nft, ipvs: simulate::ipvs::Simulator::new(), routing, flows: Flows::new() }
    }

    fn serve(mut self, address: &str, pool: &[&str]) -> Bench {
        let mut batch = ipvs::Batch::new();
        let server = server(address);
        batch.new_service(server, &Settings::new("rr"));
        for one in pool {
            batch.new_destination(server, Destination { address: ip(one), port: 8080 }, 1);
        }
        assert_eq!(self.ipvs.commit(&batch).unwrap(), []);
        self
    }

    fn send(&mut self, packet: Packet) -> Journey {
        let host = Host::new([ip(NODE)]);
        let Bench { nft, ipvs, routing, flows } = self;
        walk_with(&mut Node { routing, nft, ipvs }, &host, flows, packet, &mut |_| 0)
    }
}

fn server(address: &str) -> VirtualServer {
    VirtualServer { address: ip(address), protocol: Protocol::Tcp, port: 80 }
}

fn outside(to: &str) -> Packet {
    Packet {
        protocol: Protocol::Tcp,
        source: ip(CLIENT),
        source_port: 5000,
        destination: ip(to),
        destination_port: 80,
        mark: 0,
        origin: Origin::Interface("eth0".to_owned()),
    }
}

fn from_node(to: &str) -> Packet {
    Packet { source: ip(NODE), origin: Origin::Host, ..outside(to) }
}

/// Where it went, and whether masqueraded.
fn delivered(journey: &Journey) -> (IpAddr, u16, bool) {
    let Outcome::Delivered(delivery) = journey.outcome else { panic!("{journey:?}") };
    (delivery.to, delivery.port, delivery.masqueraded)
}

#[test]
fn a_cluster_ip_is_local_by_its_prefix_and_masqueraded_behind_ipvs() {
    let mut bench = Bench::new().serve(CLUSTER, &[POD]);
    let journey = bench.send(outside(CLUSTER));
    assert_eq!(delivered(&journey), (ip(POD), 8080, true));
    assert_eq!(journey.ended.hook, HookPoint::Postrouting);
    assert_eq!(delivered(&bench.send(from_node(CLUSTER))), (ip(POD), 8080, false));
}

#[test]
fn an_external_address_is_local_by_its_mark() {
    let mut bench = Bench::new().serve(EXTERNAL, &[POD]);
    assert_eq!(delivered(&bench.send(outside(EXTERNAL))), (ip(POD), 8080, false));
    bench.routing.mark = 0;
    let other = Packet { source_port: 5001, ..outside(EXTERNAL) };
    assert_eq!(delivered(&bench.send(other)), (ip(EXTERNAL), 80, false));
}

#[test]
fn only_what_ipvs_did_not_take_reaches_the_late_chain() {
    let mut bench = Bench::new().serve(CLUSTER, &[POD]);
    let journey = bench.send(Packet { destination_port: 81, ..outside(CLUSTER) });
    assert_eq!(journey.outcome, Outcome::Rejected(Rejection::TcpReset));
    assert_eq!(journey.ended.chain.as_deref(), Some("input-late"));
}

#[test]
fn a_server_without_destinations_refuses_by_itself() {
    let journey = Bench::new().serve(CLUSTER, &[]).send(outside(CLUSTER));
    assert_eq!(journey.outcome, Outcome::Rejected(Rejection::PortUnreachable));
    assert_eq!(journey.ended.chain.as_deref(), Some("ipvs"));
}

#[test]
fn an_endpoint_on_the_node_keeps_the_clients_address() {
    let journey = Bench::new().serve(CLUSTER, &[NODE]).send(outside(CLUSTER));
    let Outcome::Local(delivery) = journey.outcome else { panic!("{journey:?}") };
    assert_eq!((delivery.to, delivery.port, delivery.source), (ip(NODE), 8080, ip(CLIENT)));
}

#[test]
fn the_node_reaches_itself_by_an_external_address_only_if_routed_again() {
    let mut bench = Bench::new().serve(EXTERNAL, &[NODE]);
    let journey = bench.send(from_node(EXTERNAL));
    assert!(matches!(journey.outcome, Outcome::Local(_)), "{journey:?}");
    let mut batch = Batch::new(TableFamily::Ip, "t");
    batch.flush_chain("reroute");
    bench.nft.commit_bytes(batch.bytes()).unwrap();
    let journey = bench.send(Packet { source_port: 5001, ..from_node(EXTERNAL) });
    assert_eq!(delivered(&journey), (ip(NODE), 8080, false), "the packet leaves the machine");
}

#[test]
fn connections_stay_with_their_destination_until_it_is_deleted() {
    let mut bench = Bench::new().serve(CLUSTER, &[POD, "10.244.1.8"]);
    bench.ipvs.sysctls.expire_nodest_conn = true;
    let first = delivered(&bench.send(outside(CLUSTER))).0;
    bench.flows.replied(&outside(CLUSTER));
    let chosen = Destination { address: first, port: 8080 };
    let mut batch = ipvs::Batch::new();
    batch.set_destination(server(CLUSTER), chosen, 0);
    assert_eq!(bench.ipvs.commit(&batch).unwrap(), []);
    assert_eq!(delivered(&bench.send(outside(CLUSTER))).0, first);
    let other = delivered(&bench.send(Packet { source_port: 5001, ..outside(CLUSTER) })).0;
    assert_ne!(other, first);

    let mut batch = ipvs::Batch::new();
    batch.delete_destination(server(CLUSTER), chosen);
    assert_eq!(bench.ipvs.commit(&batch).unwrap(), []);
    assert_eq!(bench.send(outside(CLUSTER)).outcome, Outcome::Dropped);
    // No longer known, and not a first packet: it goes to any listener on the machine.
    assert_eq!(bench.send(outside(CLUSTER)).outcome, Outcome::Rejected(Rejection::TcpReset));
}

#[test]
fn a_loopback_source_goes_nowhere_else() {
    let mut bench = Bench::new().serve(NODE, &[POD]);
    let packet = Packet { source: ip("127.0.0.1"), ..from_node(NODE) };
    assert_eq!(bench.send(packet).outcome, Outcome::Dropped);
}
