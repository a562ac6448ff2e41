//! Settings that only mode iptables has, changed under a running agent while connections come in.

use std::net::{Ipv4Addr, SocketAddr};

use model::{Family, Protocol};
use sandbox::address;
use test_support::{Carrier, Case, wait_until};

use super::super::churn::assert_no_drift;
use super::super::places::{at_cluster_ip, at_node_port};
use super::super::reconfigure::{Configured, NODE_PORT, with_cidrs};
use super::super::stage::{From, SOON};
use super::super::traffic::Traffic;
use super::both;

pub(crate) fn cases() -> Vec<Case<'static>> {
    both("settings of the mode change without a lost packet", live)
}

fn live(carrier: Carrier) {
    let mut configured = Configured::start(carrier, &with_cidrs(""));
    let localhost = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), NODE_PORT);
    let outer = SocketAddr::new(address::NODE_OUTER_V4.into(), NODE_PORT);
    let stage = &configured.stage;
    let at_localhost = || stage.answers(From::Node, localhost);
    let at_outer = || stage.answers(From::Outside, outer);
    // The default serves them everywhere.
    assert!(at_localhost() && at_outer(), "{}", stage.log());
    // Masqueraded, so that the mark matters.
    let pairs = Family::BOTH.into_iter().flat_map(|family| {
        [(From::Outside, at_node_port(NODE_PORT, family)), (From::Guest, at_cluster_ip(1, family))]
    });
    let traffic = Traffic::start(stage, &pairs.collect::<Vec<_>>());
    let change = |body: &str, words: &str| configured.change(&with_cidrs(body), words);
    traffic.go_on(40);

    change("iptables: {masqueradeBit: 11}\n", "iptables.masqueradeBit: 14 → 11");
    let marks = |family: Family| {
        let rules = stage.tables(family);
        rules.chain("nat", "KUBE-MARK-MASQ").iter().any(|rule| rule.contains("0x800"))
            && rules.chain("nat", "KUBE-POSTROUTING").iter().any(|rule| rule.contains("0x800/0x800"))
            && rules.chain("filter", "KUBE-FORWARD").iter().any(|rule| rule.contains("0x800/0x800"))
    };
    assert!(wait_until(SOON, || Family::BOTH.into_iter().all(marks)), "another mark\n{}", stage.log());
    traffic.go_on(40);

    let body = "iptables: {masqueradeBit: 11, localhostNodePorts: false}\n";
    change(body, "iptables.localhostNodePorts: true → false");
    assert!(wait_until(SOON, || !at_localhost()), "still served at 127.0.0.1\n{}", stage.log());
    assert!(at_outer());
    traffic.go_on(40);

    change("nodePortAddresses: [primary]\n", "nodePortAddresses:");
    assert!(wait_until(SOON, || !at_outer()), "still served\n{}", stage.log());
    traffic.go_on(40);

    change("", "nodePortAddresses: [primary] →");
    assert!(wait_until(SOON, at_outer), "not served again\n{}", stage.log());
    assert!(wait_until(SOON, at_localhost), "not served again\n{}", stage.log());
    traffic.go_on(40);

    change("conntrack: {maxPerCore: 0, tcpBeLiberal: true}\n", "conntrack.tcpBeLiberal: false → true");
    let drops = |family: Family| {
        stage.tables(family).chain("filter", "KUBE-FORWARD").iter().any(|rule| rule.contains("INVALID"))
    };
    let none = || !Family::BOTH.into_iter().any(drops);
    assert!(wait_until(SOON, none), "invalid packets are dropped\n{}", stage.log());
    traffic.go_on(40);

    stage.put_endpoints("web", Protocol::Tcp, &["b"]);
    stage.await_pools(1, &["b"]);
    traffic.go_on(40);
    println!("{}: {} connections during changes of settings", carrier.name(), traffic.finish());
    assert_no_drift(stage);
    configured.assert_alive();
}
