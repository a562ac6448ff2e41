//! Settings of mode iptables that change under a running agent, while connections come in.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use model::{Family, Protocol};
use sandbox::{address, probe};
use scenarios::{Carrier, Case, wait_until};
use serde_json::json;

use super::super::churn::assert_no_drift;
use super::super::places::{at_cluster_ip, at_node_port};
use super::super::stage::{From, SOON};
use super::super::traffic::Traffic;
use super::both;
use super::rig::{Rig, await_that};

const NODE_PORT: u16 = 30080;

pub(crate) fn cases() -> Vec<Case<'static>> {
    both("settings of the mode change without a lost packet", live)
}

fn text(body: &str) -> String {
    // What all namespaces share is left alone.
    let limits = if body.contains("conntrack:") { "" } else { "conntrack: {maxPerCore: 0}\n" };
    format!(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: iptables\n\
         logging: {{verbosity: 4}}\noomScoreAdj: 0\nclusterCIDR: {},{}\n{limits}{body}",
        address::CLUSTER_V4,
        address::CLUSTER_V6
    )
}

/// Change, and wait until the agent says what is in force.
fn change(rig: &Rig, body: &str, words: &str) {
    let said = || rig.log().matches(words).count();
    let before = said();
    let next = rig.folder.path().join(".config.next");
    fs::write(&next, text(body)).unwrap();
    fs::rename(&next, rig.folder.path().join(".config.yaml")).unwrap();
    assert!(wait_until(SOON, || said() > before), "never said: {words}\n{}", rig.log());
}

/// Whom the server took for its client.
fn client_seen(rig: &Rig, family: Family) -> Option<IpAddr> {
    rig.tcp(From::Guest, at_cluster_ip(1, family)).seen_as()
}

fn answers(rig: &Rig, from: From, to: SocketAddr) -> bool {
    probe::tcp(rig.namespace(from), None, to, Duration::from_millis(500)).by().is_some()
}

fn live(carrier: Carrier) {
    let mut rig = Rig::new(carrier);
    let ports = json!([{"name": "main", "protocol": "TCP", "port": 80, "nodePort": NODE_PORT}]);
    let web = rig.service("web", 1, Protocol::Tcp).with("type", "NodePort").with("ports", ports);
    rig.folder.put_service(&web);
    rig.put_endpoints("web", Protocol::Tcp, &["a", "c"]);
    let file = rig.folder.path().join(".config.yaml");
    fs::write(&file, text("")).unwrap();
    rig.stage.start_with(&[&format!("--config={}", file.display())]);
    let process = rig.agent().process();
    let localhost = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), NODE_PORT);
    let outer = SocketAddr::new(address::NODE_OUTER_V4.into(), NODE_PORT);
    // The default serves them everywhere.
    assert!(answers(&rig, From::Node, localhost) && answers(&rig, From::Outside, outer), "{}", rig.log());
    // Masqueraded, so that the mark matters.
    let pairs = Family::BOTH.into_iter().flat_map(|family| {
        [(From::Outside, at_node_port(NODE_PORT, family)), (From::Guest, at_cluster_ip(1, family))]
    });
    let traffic = Traffic::start(&rig, &pairs.collect::<Vec<_>>());
    let go_on = || {
        let before = traffic.asked();
        assert!(wait_until(SOON, || traffic.asked() > before + 40), "traffic stands still");
    };
    go_on();

    change(&rig, "iptables: {masqueradeBit: 11}\n", "iptables.masqueradeBit: 14 → 11");
    let marks = |family: Family| {
        let rules = rig.rules(family);
        rules.chain("nat", "KUBE-MARK-MASQ").iter().any(|rule| rule.contains("0x800"))
            && rules.chain("nat", "KUBE-POSTROUTING").iter().any(|rule| rule.contains("0x800/0x800"))
            && rules.chain("filter", "KUBE-FORWARD").iter().any(|rule| rule.contains("0x800/0x800"))
    };
    assert!(await_that(SOON, || Family::BOTH.into_iter().all(marks)), "another mark\n{}", rig.log());
    go_on();

    let body = "iptables: {masqueradeBit: 11, localhostNodePorts: false}\n";
    change(&rig, body, "iptables.localhostNodePorts: true → false");
    assert!(
        wait_until(SOON, || !answers(&rig, From::Node, localhost)),
        "still served at 127.0.0.1\n{}",
        rig.log()
    );
    assert!(answers(&rig, From::Outside, outer));
    go_on();

    change(&rig, "nodePortAddresses: [primary]\n", "nodePortAddresses:");
    assert!(wait_until(SOON, || !answers(&rig, From::Outside, outer)), "still served\n{}", rig.log());
    go_on();

    change(&rig, "", "nodePortAddresses: [primary] →");
    assert!(wait_until(SOON, || answers(&rig, From::Outside, outer)), "not served again\n{}", rig.log());
    assert!(wait_until(SOON, || answers(&rig, From::Node, localhost)), "not served again\n{}", rig.log());
    let before = client_seen(&rig, Family::V4);
    change(&rig, "iptables: {masqueradeAll: true}\n", "iptables.masqueradeAll: false → true");
    let is_changed = || client_seen(&rig, Family::V4) != before;
    assert!(wait_until(SOON, is_changed), "not masqueraded: {before:?}\n{}", rig.log());
    go_on();

    change(&rig, "conntrack: {maxPerCore: 0, tcpBeLiberal: true}\n", "conntrack.tcpBeLiberal: false → true");
    let drops = |family: Family| {
        rig.rules(family).chain("filter", "KUBE-FORWARD").iter().any(|rule| rule.contains("INVALID"))
    };
    assert!(
        await_that(SOON, || !Family::BOTH.into_iter().any(drops)),
        "invalid packets are dropped\n{}",
        rig.log()
    );
    go_on();

    rig.put_endpoints("web", Protocol::Tcp, &["b"]);
    rig.await_pods_of(1, &["b"]);
    go_on();
    println!("{}: {} connections during changes of settings", carrier.name(), traffic.finish());
    assert_eq!(rig.agent().process(), process);
    assert_no_drift(&rig);
    assert_eq!(rig.agent().probe("/readyz"), Some(200));
}
