//! From upstream's rules to ours in one step, and what is left of theirs.

use std::net::IpAddr;

use kernel::iptables::Tables;
use model::Service;
use simulate::iptables::Fault;
use simulate::{Host, walk};

use super::common::{ip, service};
use super::packets::packet;
use super::*;

fn cluster() -> Fixture {
    let mut fixture = Fixture::default();
    fixture.add("default/sticky", Service { affinity_seconds: Some(100), ..service(5) }, &PODS);
    fixture
}

/// What upstream's kube-proxy writes for that cluster, and for a service that is gone.
fn upstream() -> Simulator {
    let mut ours = reconciler();
    sync(&mut ours, &cluster(), &[]);
    let service = chain_of(tables(&mut ours), Table::Nat, "default/sticky:http cluster IP");
    let rules = tables(&mut ours).rules(Table::Nat, &service).unwrap();
    let list_of = |endpoint: &str| -> String {
        let to = format!("--to-destination {endpoint}:8080");
        let rule = rules.iter().find(|rule| rule.ends_with(&to)).unwrap();
        rule.split(" --name ").nth(1).unwrap().split(' ').next().unwrap().to_owned()
    };
    let mut nat = "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-POSTROUTING - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n\
        :KUBE-NODEPORTS - [0:0]\n:KUBE-PROXY-CANARY - [0:0]\n:KUBE-SVC-GONEGONEGONEGONE - [0:0]\n\
        :KUBE-SEP-GONEGONEGONEGONE - [0:0]\n:KUBE-XLB-GONEGONEGONEGONE - [0:0]\n"
        .to_owned();
    nat += &format!(":{service} - [0:0]\n");
    let (mut jumps, mut endpoints) = (String::new(), String::new());
    for (endpoint, _) in PODS {
        let list = list_of(endpoint);
        nat += &format!(":{list} - [0:0]\n");
        jumps += &format!("-A {service} -m recent --name {list} --rcheck --seconds 100 --reap -j {list}\n");
        endpoints += &format!("-A {list} -s {endpoint} -j KUBE-MARK-MASQ\n");
        endpoints += &format!(
            "-A {list} -p tcp -m recent --name {list} --set -j DNAT --to-destination {endpoint}:8080\n"
        );
    }
    jumps +=
        &format!("-A {service} -m statistic --mode random --probability 0.5 -j {}\n", list_of(PODS[0].0));
    jumps += &format!("-A {service} -j {}\n", list_of(PODS[2].0));
    nat += "-A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
        -A OUTPUT -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
        -A POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING\n\
        -A KUBE-MARK-MASQ -j MARK --or-mark 0x4000\n-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
        -A KUBE-POSTROUTING -j MARK --xor-mark 0x4000\n-A KUBE-POSTROUTING -j MASQUERADE --random-fully\n\
        -A KUBE-SERVICES -d 10.96.0.9 -p tcp -m tcp --dport 80 -j KUBE-SVC-GONEGONEGONEGONE\n\
        -A KUBE-SVC-GONEGONEGONEGONE -j KUBE-SEP-GONEGONEGONEGONE\n";
    nat += &format!(
        "-A KUBE-SERVICES -d 10.96.0.5 -p tcp -m tcp --dport 80 -j {service}\n{jumps}{endpoints}COMMIT\n"
    );
    let filter = "*filter\n:KUBE-SERVICES - [0:0]\n:KUBE-FORWARD - [0:0]\n:KUBE-EXTERNAL-SERVICES - [0:0]\n\
        -A FORWARD -m conntrack --ctstate NEW -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
        -A FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD\nCOMMIT\n";
    let mut simulator = empty(Family::V4);
    simulator.restore(&format!("{nat}{filter}")).unwrap();
    simulator
}

/// Where a client is sent that draws this, if it draws.
fn met(simulator: &mut Simulator, client: &str, drawn: u32) -> Option<IpAddr> {
    let host = Host::new([ip("192.168.50.2")]);
    let journey = walk(simulator, &host, packet(client, "10.96.0.5", 80), &mut |_| drawn);
    journey.delivery().map(|delivery| delivery.to)
}

#[test]
fn nothing_of_upstreams_is_left_and_no_jump_stands_twice() {
    let mut reconciler = over(upstream());
    sync(&mut reconciler, &cluster(), &[]);
    for table in Table::BOTH {
        let held = tables(&mut reconciler);
        let chains = held.chains(table);
        let stale = |chain: &&&str| chain.contains("-SEP-") || chain.contains("GONE");
        assert!(!chains.iter().any(|chain| stale(&chain)), "{chains:?}");
        for chain in chains {
            let mut rules = held.rules(table, chain).unwrap();
            let all = rules.len();
            rules.sort();
            rules.dedup();
            assert_eq!(rules.len(), all, "{chain}: {rules:?}");
        }
    }
}

#[test]
fn clients_stay_where_they_were() {
    let mut simulator = upstream();
    assert_eq!(met(&mut simulator, "10.244.1.99", u32::MAX), Some(ip(PODS[2].0)));
    let mut reconciler = over(simulator);
    sync(&mut reconciler, &cluster(), &[]);
    assert_eq!(met(tables(&mut reconciler), "10.244.1.99", 0), Some(ip(PODS[2].0)));
    assert_eq!(met(tables(&mut reconciler), "10.244.1.98", 0), Some(ip(PODS[0].0)));
    reconciler.distrust(Family::V4);
    sync(&mut reconciler, &cluster(), &[]);
    assert_eq!(
        met(tables(&mut reconciler), "10.244.1.98", u32::MAX),
        Some(ip(PODS[0].0)),
        "not by a rewrite"
    );
    let mut fixture = cluster();
    fixture.add("default/sticky", Service { affinity_seconds: Some(100), ..service(5) }, &PODS[..1]);
    sync(&mut reconciler, &fixture, &["default/sticky"]);
    assert_eq!(met(tables(&mut reconciler), "10.244.1.99", 0), Some(ip(PODS[0].0)), "its endpoint is gone");
    sync(&mut reconciler, &cluster(), &["default/sticky"]);
    assert_eq!(
        met(tables(&mut reconciler), "10.244.1.99", u32::MAX),
        Some(ip(PODS[0].0)),
        "and stays forgotten"
    );
}

#[test]
fn between_the_tables_clients_are_served_too() {
    for table in Table::BOTH {
        let mut reconciler = over(upstream());
        tables(&mut reconciler).fail_next(Fault::AtCommit(table));
        assert!(reconciler.sync(Family::V4, &[], &cluster()).is_err());
        assert!(met(tables(&mut reconciler), "10.244.1.99", 0).is_some(), "{table:?}");
    }
}
