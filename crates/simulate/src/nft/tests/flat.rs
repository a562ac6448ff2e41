//! Services, node ports, rejects and affinity, from a pod, from the node and from outside.

use std::net::{IpAddr, Ipv4Addr};

use kernel::nft::{ElementData, TableFamily};

use super::layout::*;
use crate::nft::Simulator;
use crate::{
    Delivery, Flows, HookPoint, Journey, Outcome, Packet, Place, Protocol, Rejection, walk, walk_with,
};

fn ip(octets: [u8; 4]) -> IpAddr {
    Ipv4Addr::from(octets).into()
}

/// One walk that draws `slot` wherever it draws.
fn go(simulator: &mut Simulator, packet: Packet, slot: u32) -> Journey {
    walk(simulator, &host(), packet, &mut |_| slot)
}

fn udp(packet: Packet) -> Packet {
    Packet { protocol: Protocol::Udp, ..packet }
}

fn delivered(to: [u8; 4], source: [u8; 4], masqueraded: bool) -> Outcome {
    Outcome::Delivered(Delivery { to: ip(to), port: 8080, source: ip(source), masqueraded, mark: 0 })
}

const BRIDGE: [u8; 4] = [10, 244, 1, 1];

#[test]
fn a_pod_reaches_each_endpoint_with_its_own_address() {
    let mut simulator = simulator();
    let first = go(&mut simulator, packet(OTHER_POD, WEB, 80), 0);
    assert_eq!(first.outcome, delivered(POD, OTHER_POD, false));
    let second = go(&mut simulator, udp(packet([10, 244, 2, 9], WEB, 80)), 1);
    assert_eq!(second.outcome, delivered(OTHER_POD, [10, 244, 2, 9], false));
    assert_eq!(second.ended, Place { hook: HookPoint::Postrouting, chain: None });
}

#[test]
fn a_pod_that_reaches_itself_is_masqueraded() {
    let journey = go(&mut simulator(), packet(POD, WEB, 80), 0);
    assert_eq!(journey.outcome, delivered(POD, BRIDGE, true));
}

#[test]
fn outsiders_and_the_node_are_masqueraded_on_cluster_ips() {
    let mut simulator = simulator();
    assert_eq!(go(&mut simulator, packet(OUTSIDE, WEB, 80), 1).outcome, delivered(OTHER_POD, BRIDGE, true));
    assert_eq!(go(&mut simulator, packet(NODE, WEB, 80), 0).outcome, delivered(POD, BRIDGE, true));
}

#[test]
fn marks_of_others_survive() {
    let marked = Packet { mark: 0x101, ..packet(OUTSIDE, WEB, 80) };
    let journey = go(&mut simulator(), marked, 0);
    assert_eq!(journey.delivery().unwrap().mark, 0x101);
    assert!(journey.delivery().unwrap().masqueraded);
}

#[test]
fn node_ports_work_from_everywhere() {
    let mut simulator = simulator();
    for from in [OUTSIDE, NODE, OTHER_POD] {
        let journey = go(&mut simulator, packet(from, NODE, NODE_PORT), 0);
        assert_eq!(journey.outcome, delivered(POD, BRIDGE, true), "from {from:?}");
    }
    let untouched = go(&mut simulator, packet(OUTSIDE, NODE, 22), 0);
    let expected = Delivery { to: ip(NODE), port: 22, source: ip(OUTSIDE), masqueraded: false, mark: 0 };
    assert_eq!(untouched.outcome, Outcome::Local(expected));
}

#[test]
fn without_endpoints_clients_are_refused() {
    let mut simulator = simulator();
    let place = |hook| Place { hook, chain: Some("reject-it".to_owned()) };
    for (from, to, port, hook) in [
        (OTHER_POD, EMPTY, 80, HookPoint::Forward),
        (NODE, EMPTY, 80, HookPoint::Output),
        (OUTSIDE, NODE, EMPTY_NODE_PORT, HookPoint::Input),
        // Out over the loopback interface, and refused when it comes in again.
        (NODE, NODE, EMPTY_NODE_PORT, HookPoint::Input),
        // A port that a live cluster IP does not have.
        (OTHER_POD, WEB, 81, HookPoint::Forward),
    ] {
        let journey = go(&mut simulator, packet(from, to, port), 0);
        assert_eq!(journey.outcome, Outcome::Rejected(Rejection::TcpReset), "{from:?} to {to:?}");
        assert_eq!(journey.ended, place(hook), "{from:?} to {to:?}");
        let journey = go(&mut simulator, udp(packet(from, to, port)), 0);
        assert_eq!(journey.outcome, Outcome::Rejected(Rejection::PortUnreachable), "{from:?} to {to:?}");
    }
}

#[test]
fn what_must_not_pass_is_dropped() {
    let mut simulator = simulator();
    let drop = |chain: &str, hook| (Outcome::Dropped, Place { hook, chain: Some(chain.to_owned()) });
    for (from, to, expected) in [
        (OUTSIDE, NOT_HERE, drop("forward-new", HookPoint::Forward)),
        // Unallocated, but in the range of cluster IPs; its last address is inside, the next one is not ours.
        (OTHER_POD, [10, 96, 255, 255], drop("forward-new", HookPoint::Forward)),
        (OUTSIDE, GUARDED, drop("firewall-check", HookPoint::Prerouting)),
    ] {
        let journey = go(&mut simulator, packet(from, to, 80), 0);
        assert_eq!((journey.outcome, journey.ended), expected, "{from:?} to {to:?}");
    }
    let beyond = go(&mut simulator, packet(OTHER_POD, [10, 97, 0, 0], 80), 0);
    assert!(matches!(beyond.outcome, Outcome::Delivered(_)));
    let allowed = go(&mut simulator, packet([192, 168, 50, 77], GUARDED, 80), 0);
    assert_eq!(allowed.outcome, delivered(POD, BRIDGE, true));
}

#[test]
fn a_slot_that_is_missing_falls_back_to_the_first() {
    let mut simulator = simulator();
    let second = slot(&key(WEB, 6, 80), 1);
    assert!(simulator.delete_element(TableFamily::Ip, TABLE, "endpoints", &second));
    let journey = go(&mut simulator, packet(OTHER_POD, WEB, 80), 1);
    assert_eq!(journey.outcome, delivered(POD, OTHER_POD, false));
    assert!(journey.trace.iter().any(|step| step.chain == "slot-zero"), "{:#?}", journey.trace);
}

#[test]
fn affinity_pins_a_client_until_its_time_is_up() {
    let mut simulator = simulator();
    let pinned = pin(OTHER_POD, &key(STICKY, 6, 80));
    let to = |simulator: &mut Simulator, port, slot| {
        let packet = Packet { source_port: port, ..packet(OTHER_POD, STICKY, 80) };
        go(simulator, packet, slot).delivery().map(|delivery| delivery.to)
    };
    assert_eq!(to(&mut simulator, 1, 0), Some(ip(POD)));
    assert!(simulator.has_element(TableFamily::Ip, TABLE, "affinity", &pinned));
    simulator.set_now(PIN_MS - 1);
    assert_eq!(to(&mut simulator, 2, 1), Some(ip(POD)), "the pin holds, and its time starts over");
    simulator.set_now(2 * PIN_MS - 2);
    assert_eq!(to(&mut simulator, 3, 1), Some(ip(POD)));
    simulator.set_now(3 * PIN_MS - 2);
    assert!(!simulator.has_element(TableFamily::Ip, TABLE, "affinity", &pinned));
    assert_eq!(to(&mut simulator, 4, 1), Some(ip(OTHER_POD)), "a new draw");
}

#[test]
fn a_pin_to_a_gone_endpoint_costs_one_packet() {
    let mut simulator = simulator();
    let sticky = key(STICKY, 6, 80);
    go(&mut simulator, packet(OUTSIDE, STICKY, 80), 1);
    commit(&mut simulator, |batch| {
        let gone = [&sticky[..], &endpoint(OTHER_POD, 8080)].concat();
        batch.delete_element("affinity-endpoints-3", &gone);
        batch.delete_element("endpoints", &slot(&sticky, 1));
        batch.delete_element("endpoints", &slot(&sticky, 0));
        batch.add_element("endpoints", &slot(&sticky, 0), ElementData::Value(&endpoint(POD, 8080)), None);
    });
    let mut flows = Flows::new();
    let again = Packet { source_port: 2, ..packet(OUTSIDE, STICKY, 80) };
    let journey = walk_with(&mut simulator, &host(), &mut flows, again.clone(), &mut |_| 0);
    assert_eq!(journey.outcome, Outcome::Dropped);
    assert_eq!(journey.ended.chain.as_deref(), Some("affinity-stale"));
    assert!(flows.is_empty(), "a dropped packet leaves no connection");
    let retransmitted = walk_with(&mut simulator, &host(), &mut flows, again, &mut |_| 0);
    assert_eq!(retransmitted.outcome, delivered(POD, BRIDGE, true));
    assert_eq!(flows.len(), 1);
}

#[test]
fn with_no_room_for_pins_clients_go_unpinned() {
    let mut simulator = simulator();
    for client in 0..PINS as u8 + 2 {
        let journey = go(&mut simulator, packet([192, 168, 60, client], STICKY, 80), 1);
        assert_eq!(journey.outcome, delivered(OTHER_POD, BRIDGE, true), "client {client}");
    }
    assert_eq!(simulator.count(TableFamily::Ip, TABLE, "affinity"), Some(PINS as usize));
}

#[test]
fn a_known_connection_keeps_its_endpoint() {
    let mut simulator = simulator();
    let mut flows = Flows::new();
    let query = udp(packet(OTHER_POD, WEB, 80));
    let mut to = |simulator: &mut Simulator, slot: u32| {
        let journey = walk_with(simulator, &host(), &mut flows, query.clone(), &mut |_| slot);
        journey.delivery().unwrap().to
    };
    assert_eq!(to(&mut simulator, 0), ip(POD));
    assert_eq!(to(&mut simulator, 1), ip(POD), "NAT was decided by the first packet");
    commit(&mut simulator, |batch| batch.flush_set("endpoints"));
    assert_eq!(to(&mut simulator, 1), ip(POD), "even when the endpoint is gone");
    assert!(flows.forget(&query));
    let journey = walk_with(&mut simulator, &host(), &mut flows, query, &mut |_| 0);
    assert_eq!(journey.outcome, Outcome::Rejected(Rejection::PortUnreachable));
}

#[test]
fn a_connection_older_than_the_rules_is_not_redirected() {
    let mut empty = Simulator::new();
    let mut flows = Flows::new();
    let query = udp(packet(OTHER_POD, WEB, 80));
    walk_with(&mut empty, &host(), &mut flows, query.clone(), &mut |_| 0);
    let journey = walk_with(&mut simulator(), &host(), &mut flows, query.clone(), &mut |_| 0);
    assert_eq!(journey.outcome, Outcome::Rejected(Rejection::PortUnreachable));
    flows.replied(&query);
    let journey = walk_with(&mut simulator(), &host(), &mut flows, query, &mut |_| 0);
    assert_eq!(journey.delivery().unwrap().to, ip(WEB), "an established one is not even asked about");
}

#[test]
fn the_trace_reads_like_the_rules() {
    let journey = go(&mut simulator(), packet(OUTSIDE, WEB, 80), 1);
    let text: Vec<String> = journey.trace.iter().map(ToString::to_string).collect();
    assert_eq!(
        text,
        [
            "prerouting / nat-prerouting rule 1: source outside 10.244.0.0/16, 10.96.0.1 is in @cluster-ips, \
             mark 0x0 becomes 0x4000",
            "prerouting / nat-prerouting rule 2: jump services",
            "prerouting / services rule 1: @service-ips has 10.96.0.1 . tcp . 80: goto lb-2",
            "prerouting / lb-2 rule 1: draws 2 of 2, @endpoints has 10.96.0.1 . tcp . 80 . 1: \
             10.244.1.12 . 8080, redirected to 10.244.1.12 port 8080",
            "forward / filter-forward rule 1: connection new, goto forward-new",
            "forward / forward-new rule 1: connection redirected, not confirmed, goto affinity-record",
            "postrouting / nat-postrouting rule 1: mark & 0x4000 is not 0x0, mark 0x4000 becomes 0x0, \
             masqueraded as 10.244.1.1",
        ]
    );
}
