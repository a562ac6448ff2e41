//! Packets through rules of the kind that services are made of.

use super::*;
use crate::{HookPoint, Rejection};

const NAT: &str = r#":KUBE-SERVICES - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-SVC-A - [0:0]
-A PREROUTING -m comment --comment "service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "service portals" -j KUBE-SERVICES
-A POSTROUTING -j KUBE-POSTROUTING
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -m comment --comment "default/a cluster IP" -j KUBE-SVC-A
-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-NODEPORTS -p tcp -m tcp --dport 30080 -j KUBE-MARK-MASQ
-A KUBE-NODEPORTS -p tcp -m tcp --dport 30080 -g KUBE-SVC-A
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
-A KUBE-SVC-A ! -s 10.244.0.0/16 -d 10.96.0.1/32 -j KUBE-MARK-MASQ
-A KUBE-SVC-A -p tcp -m statistic --mode random --probability 0.5 -j DNAT --to-destination 10.244.1.1:8080
-A KUBE-SVC-A -p tcp -j DNAT --to-destination 10.244.2.2:8080
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000
-A KUBE-POSTROUTING -j MASQUERADE --random-fully"#;
const FILTER: &str = r#":KUBE-SERVICES - [0:0]
-A FORWARD -m conntrack --ctstate NEW -j KUBE-SERVICES
-A OUTPUT -m conntrack --ctstate NEW -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.96.0.2/32 -p tcp -m comment --comment "default/b has no endpoints" -j REJECT --reject-with tcp-reset
-A KUBE-SERVICES -d 10.96.0.2/32 -j REJECT
-A KUBE-SERVICES -d 10.96.0.0/16 -j DROP"#;

#[test]
fn a_pod_reaches_every_endpoint_under_its_own_address() {
    let mut simulator = holding(NAT, FILTER);
    let mut random = Xorshift::new(3);
    let mut met = std::collections::BTreeSet::new();
    for _ in 0..40 {
        let packet = packet("10.244.1.9", "10.96.0.1", 80);
        let journey = walk(&mut simulator, &host(), packet, &mut |below| random.draw(below));
        let (to, port, source) = arrived(&journey);
        assert_eq!((port, source), (8080, ip("10.244.1.9")));
        met.insert(to);
    }
    assert_eq!(Vec::from_iter(met), [ip("10.244.1.1"), ip("10.244.2.2")]);
}

#[test]
fn others_are_masqueraded_and_the_mark_is_taken_off_again() {
    let mut simulator = holding(NAT, FILTER);
    let journey = send(&mut simulator, packet("172.16.0.1", "10.96.0.1", 80));
    let delivery = journey.delivery().copied().unwrap();
    assert_eq!((delivery.source, delivery.masqueraded, delivery.mark), (ip("192.168.50.2"), true, 0));
    let steps: Vec<String> = journey.trace.iter().map(ToString::to_string).collect();
    assert_eq!(
        steps,
        [
            "prerouting / PREROUTING rule 1: -m comment --comment \"service portals\" -j KUBE-SERVICES",
            "prerouting / KUBE-SERVICES rule 1: -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -m comment --comment \
             \"default/a cluster IP\" -j KUBE-SVC-A",
            "prerouting / KUBE-SVC-A rule 1: ! -s 10.244.0.0/16 -d 10.96.0.1/32 -j KUBE-MARK-MASQ",
            "prerouting / KUBE-MARK-MASQ rule 1: -j MARK --set-xmark 0x4000/0x4000 (mark 0x0 becomes 0x4000)",
            "prerouting / KUBE-SVC-A rule 3: -p tcp -j DNAT --to-destination 10.244.2.2:8080",
            "forward / FORWARD rule 1: -m conntrack --ctstate NEW -j KUBE-SERVICES",
            "postrouting / POSTROUTING rule 1: -j KUBE-POSTROUTING",
            "postrouting / KUBE-POSTROUTING rule 2: -j MARK --set-xmark 0x4000/0x0 (mark 0x4000 becomes 0x0)",
            "postrouting / KUBE-POSTROUTING rule 3: -j MASQUERADE --random-fully (masqueraded as 192.168.50.2)",
        ]
    );
}

#[test]
fn a_node_port_is_found_by_the_address_being_local() {
    let mut simulator = holding(NAT, FILTER);
    let journey = send(&mut simulator, packet("172.16.0.1", "192.168.50.2", 30080));
    assert_eq!(arrived(&journey).2, ip("192.168.50.2"));
    let own = Packet { origin: Origin::Host, ..packet("192.168.50.2", "127.0.0.1", 30080) };
    assert_eq!(arrived(&send(&mut simulator, own)).1, 8080);
    let other = send(&mut simulator, packet("172.16.0.1", "192.168.50.2", 30081));
    assert_eq!(arrived(&other), (ip("192.168.50.2"), 30081, ip("172.16.0.1")));
    assert_eq!(other.ended.hook, HookPoint::Input);
}

#[test]
fn the_filter_rejects_and_drops() {
    let mut simulator = holding(NAT, FILTER);
    let to = |address: &str| packet("172.16.0.1", address, 80);
    assert_eq!(send(&mut simulator, to("10.96.0.2")).outcome, Outcome::Rejected(Rejection::TcpReset));
    let datagram = Packet { protocol: Protocol::Udp, ..to("10.96.0.2") };
    assert_eq!(send(&mut simulator, datagram).outcome, Outcome::Rejected(Rejection::PortUnreachable));
    let journey = send(&mut simulator, to("10.96.0.3"));
    assert_eq!((journey.outcome, journey.ended.chain.as_deref()), (Outcome::Dropped, Some("KUBE-SERVICES")));
    let own = Packet { origin: Origin::Host, ..packet("192.168.50.2", "10.96.0.3", 80) };
    assert_eq!(send(&mut simulator, own).ended.hook, HookPoint::Output);
    simulator.run(Table::Filter, "-P FORWARD DROP").unwrap();
    assert_eq!(send(&mut simulator, to("8.8.8.8")).outcome, Outcome::Dropped);
}

#[test]
fn the_state_of_a_connection_shows_its_translation() {
    let filter = ":SEEN - [0:0]\n-A FORWARD -m conntrack ! --ctstate DNAT -j DROP\n-A FORWARD -m conntrack --ctstate ESTABLISHED -j DROP";
    let mut simulator = holding(NAT, filter);
    arrived(&send(&mut simulator, packet("172.16.0.1", "10.96.0.1", 80)));
    assert_eq!(send(&mut simulator, packet("172.16.0.1", "10.244.1.1", 80)).outcome, Outcome::Dropped);
    let filter = "-A FORWARD -m conntrack --ctstate DNAT --ctorigdst 10.96.0.0/16 -j DROP";
    restore(&mut simulator, "", filter).unwrap();
    assert_eq!(send(&mut simulator, packet("172.16.0.1", "10.96.0.1", 80)).outcome, Outcome::Dropped);
}

#[test]
fn interfaces_are_matched_by_name_and_beginning() {
    for (condition, matches) in [
        ("-i eth0", true),
        ("-i eth+", true),
        ("-i eth", false),
        ("! -i eth+", false),
        ("! -i cali+", true),
        ("-i cali+", false),
    ] {
        let mut simulator = holding("", &format!("-A FORWARD {condition} -j DROP"));
        let dropped = send(&mut simulator, packet("1.1.1.1", "2.2.2.2", 1)).outcome == Outcome::Dropped;
        assert_eq!(dropped, matches, "{condition}");
    }
    let filter = ":C - [0:0]\n-A OUTPUT -j C\n-A C ! -i cali+ -j DROP";
    let own = Packet { origin: Origin::Host, ..packet("192.168.50.2", "2.2.2.2", 1) };
    assert_eq!(send(&mut holding("", filter), own).outcome, Outcome::Dropped, "no interface is not that one");
}

#[test]
fn ports_are_matched_by_range() {
    let mut simulator = holding(
        "",
        "-A FORWARD -p tcp -m tcp --dport 80:90 -j DROP\n-A FORWARD -p tcp -m tcp ! --dport 91 -j REJECT",
    );
    let mut ask = |port| send(&mut simulator, packet("1.1.1.1", "2.2.2.2", port)).outcome;
    assert_eq!((ask(80), ask(90)), (Outcome::Dropped, Outcome::Dropped));
    assert!(matches!(ask(91), Outcome::Delivered(_)));
    assert_eq!(ask(79), Outcome::Rejected(Rejection::PortUnreachable));
}

#[test]
fn rules_policies_and_accounts_count() {
    let mut simulator = Simulator::default();
    simulator.restore("*filter\n-A FORWARD -m nfacct --nfacct-name seen\nCOMMIT\n").unwrap_err();
    simulator.add_account("seen");
    restore(&mut simulator, "", "-A FORWARD -d 2.2.2.2 -m nfacct --nfacct-name seen\n-A FORWARD -d 3.3.3.3")
        .unwrap();
    send(&mut simulator, packet("1.1.1.1", "2.2.2.2", 1));
    send(&mut simulator, packet("1.1.1.1", "2.2.2.2", 1));
    assert_eq!(simulator.accounted("seen"), Some(2));
    let counted = simulator.counters(Table::Filter, "FORWARD").unwrap();
    assert_eq!((counted[0].packets, counted[1].packets), (2, 0));
    assert!(simulator.save(Table::Filter).unwrap().contains(":FORWARD ACCEPT [2:120]\n"));
}
