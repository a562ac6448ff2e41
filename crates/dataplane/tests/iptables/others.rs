//! What is not ours stays as it is: rules, their order, their counters.

use dataplane::Backend as _;
use kernel::iptables::Tables;

use super::common::service;
use super::*;

/// As a network plugin and an operator leave them, before us and behind us.
const FOREIGN: &str = "*nat\n:CNI-HOSTPORT - [0:0]\n[7:420] -A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT\n\
    [3:180] -A CNI-HOSTPORT -p tcp -m tcp --dport 8443 -j DNAT --to-destination 10.244.1.50:443\n\
    [2:120] -A POSTROUTING -s 10.244.0.0/16 ! -d 10.244.0.0/16 -j MASQUERADE\nCOMMIT\n\
    *filter\n:OPERATOR - [0:0]\n:KUBE-FIREWALL - [0:0]\n[9:540] -A INPUT -j OPERATOR\n[4:240] -A INPUT -j KUBE-FIREWALL\n\
    [5:300] -A OPERATOR -s 198.51.100.0/24 -j DROP\n[1:60] -A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP\n\
    [6:360] -A FORWARD -i cni0 -j ACCEPT\nCOMMIT\n";

/// Rules with their counters, of all chains but ours, and without the rules that lead to ours.
fn foreign(simulator: &Simulator) -> Vec<String> {
    let mut all = Vec::new();
    for table in Table::BOTH {
        for chain in simulator.chains(table) {
            let is_ours = chain.starts_with("KUBE-") && chain != "KUBE-FIREWALL";
            let rules = simulator.rules(table, chain).unwrap();
            let counters = simulator.counters(table, chain).unwrap();
            let foreign = rules.into_iter().zip(counters).filter(|(rule, _)| {
                !is_ours && (!rule.contains("-j KUBE-") || rule.ends_with("-j KUBE-FIREWALL"))
            });
            all.extend(foreign.map(|(rule, counters)| format!("{table:?} {chain} {rule} {counters:?}")));
        }
    }
    all
}

#[test]
fn rules_of_others_and_their_counters_are_untouched() {
    let mut simulator = empty(Family::V4);
    simulator.restore(FOREIGN).unwrap();
    let before = foreign(&simulator);
    assert_eq!(before.len(), 8);
    let (mut reconciler, mut fixture) = (over(simulator), Fixture::everything());
    sync(&mut reconciler, &fixture, &[]);
    assert_eq!(foreign(tables(&mut reconciler)), before, "after the first sync");
    fixture.add("default/plain", service(1), &PODS);
    fixture.services.remove("default/open");
    sync(&mut reconciler, &fixture, &["default/plain", "default/open"]);
    assert_eq!(foreign(tables(&mut reconciler)), before, "after a partial sync");
    reconciler.distrust(Family::V4);
    sync(&mut reconciler, &fixture, &[]);
    assert_eq!(foreign(tables(&mut reconciler)), before, "after a rewrite");
    reconciler.backend().cleanup(Family::V4).unwrap();
    let left = tables(&mut reconciler);
    assert_eq!(foreign(left), before, "after the clean-up");
    for table in Table::BOTH {
        let ours: Vec<&str> =
            left.chains(table).into_iter().filter(|chain| chain.starts_with("KUBE-")).collect();
        assert!(ours.iter().all(|chain| *chain == "KUBE-FIREWALL"), "{ours:?}");
    }
}

/// Each sync of upstream's would reset the counters of all rules.
#[test]
fn a_partial_sync_leaves_the_counters_of_other_services() {
    let (mut reconciler, mut fixture) = synced();
    let chain = chain_of(tables(&mut reconciler), Table::Nat, "default/open:http cluster IP");
    let host = simulate::Host::new([super::common::ip("192.168.50.2")]);
    let packet = super::packets::packet("10.244.1.99", "10.96.0.3", 80);
    simulate::walk(tables(&mut reconciler), &host, packet, &mut |_| 0);
    let counted = tables(&mut reconciler).counters(Table::Nat, &chain).unwrap();
    assert!(counted.iter().any(|counters| counters.packets == 1), "{counted:?}");
    fixture.add("default/plain", service(1), &PODS);
    sync(&mut reconciler, &fixture, &["default/plain"]);
    assert_eq!(tables(&mut reconciler).counters(Table::Nat, &chain).unwrap(), counted);
}

#[test]
fn our_jumps_come_before_what_others_accept_or_drop() {
    let mut simulator = empty(Family::V4);
    simulator.restore(FOREIGN).unwrap();
    let mut reconciler = over(simulator);
    sync(&mut reconciler, &Fixture::everything(), &[]);
    for (table, chain) in
        [(Table::Nat, "PREROUTING"), (Table::Nat, "POSTROUTING"), (Table::Filter, "FORWARD")]
    {
        let rules = tables(&mut reconciler).rules(table, chain).unwrap();
        let last_of_ours = rules.iter().rposition(|rule| rule.contains("-j KUBE-")).unwrap();
        let first_of_others = rules.iter().position(|rule| !rule.contains("-j KUBE-")).unwrap();
        assert!(last_of_ours < first_of_others, "{chain}: {rules:#?}");
    }
}

#[test]
fn a_chain_that_others_lead_to_is_not_taken_from_them() {
    let mut simulator = empty(Family::V4);
    let rules = "*nat\n:KUBE-SVC-OTHERS - [0:0]\n:KUBE-SVC-STALE - [0:0]\n:MINE - [0:0]\n-A MINE -j KUBE-SVC-OTHERS\n\
        -A KUBE-SVC-STALE -j KUBE-SVC-OTHERS\nCOMMIT\n";
    simulator.restore(rules).unwrap();
    let mut reconciler = over(simulator);
    sync(&mut reconciler, &Fixture::everything(), &[]);
    let chains = tables(&mut reconciler).chains(Table::Nat);
    assert!(chains.contains(&"KUBE-SVC-OTHERS") && !chains.contains(&"KUBE-SVC-STALE"), "{chains:?}");
    assert_eq!(tables(&mut reconciler).rules(Table::Nat, "MINE").unwrap(), ["-j KUBE-SVC-OTHERS"]);
}

/// The tables contain rules of nft: what is there is unknown, and what is of others is not touched.
#[test]
fn tables_that_cannot_be_read_are_written_and_nothing_else() {
    let (mut reconciler, fixture) = synced();
    let of_kubelet = "*filter\n:KUBE-FIREWALL - [0:0]\n-A KUBE-FIREWALL -s 192.0.2.1 -j DROP\nCOMMIT\n";
    tables(&mut reconciler).restore(of_kubelet).unwrap();
    let before = contents(tables(&mut reconciler));
    tables(&mut reconciler).unreadable = true;
    assert!(!reconciler.check(Family::V4), "what cannot be read is not damaged");
    reconciler.distrust(Family::V4);
    assert!(sync(&mut reconciler, &fixture, &[]).full);
    assert_eq!(contents(tables(&mut reconciler)), before);
}
