//! Scripts: what they change, what is refused, at which line.

use super::super::Fault;
use super::*;

const CHAINS: &str = ":A - [0:0]\n:B - [0:0]\n-A A -j B\n-A B -p tcp -j DNAT --to-destination 10.0.0.1:80";

#[test]
fn a_declared_chain_is_made_or_emptied_and_others_stay() {
    let mut simulator = holding(CHAINS, ":F - [0:0]\n-A F -j DROP");
    restore(&mut simulator, ":A - [0:0]\n:C - [0:0]\n-A C -j B", "").unwrap();
    assert_eq!(simulator.chains(Table::Nat), ["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING", "A", "B", "C"]);
    assert_eq!(rules(&simulator, Table::Nat, "A"), [""; 0]);
    assert_eq!(rules(&simulator, Table::Nat, "B"), ["-p tcp -j DNAT --to-destination 10.0.0.1:80"]);
    assert_eq!(rules(&simulator, Table::Filter, "F"), ["-j DROP"]);
}

#[test]
fn rules_are_put_in_and_taken_out_where_the_command_says() {
    let mut simulator = holding(":A - [0:0]\n-A A -s 10.0.0.1\n-A A -s 10.0.0.2", "");
    restore(
        &mut simulator,
        "-I A -s 10.0.0.3\n-I A 2 -s 10.0.0.4\n-D A -s 10.0.0.2/32\n-A A -s 10.0.0.5",
        "",
    )
    .unwrap();
    let held = ["-s 10.0.0.3/32", "-s 10.0.0.4/32", "-s 10.0.0.1/32", "-s 10.0.0.5/32"];
    assert_eq!(rules(&simulator, Table::Nat, "A"), held);
    restore(&mut simulator, "-R A 1 -s 10.0.0.6\n-D A 2\n-F B", "").unwrap_err();
    assert_eq!(rules(&simulator, Table::Nat, "A"), held, "a section is carried out wholly or not at all");
    restore(&mut simulator, "-R A 1 -s 10.0.0.6\n-D A 2", "").unwrap();
    assert_eq!(rules(&simulator, Table::Nat, "A"), ["-s 10.0.0.6/32", "-s 10.0.0.1/32", "-s 10.0.0.5/32"]);
}

#[test]
fn a_section_stands_once_it_is_committed() {
    let mut simulator = holding(CHAINS, ":F - [0:0]");
    let before = simulator.stamp();
    let error = restore(&mut simulator, "-A A -j RETURN", "-A F --nope").unwrap_err();
    assert!(matches!(error, ToolError::Refused { line: Some(5), .. }), "{error:?}");
    assert_eq!(rules(&simulator, Table::Nat, "A"), ["-j B", "-j RETURN"]);
    assert_ne!(simulator.stamp(), before);
}

#[test]
fn chains_go_once_they_are_empty_and_nothing_leads_to_them() {
    let mut simulator = holding(CHAINS, "");
    assert_eq!(refused_at(&mut simulator, "-X A"), Some(2));
    assert_eq!(refused_at(&mut simulator, ":B - [0:0]\n-X B"), Some(3));
    assert_eq!(refused_at(&mut simulator, ":A - [0:0]\n:B - [0:0]\n-X B\n-X A"), None);
    assert_eq!(simulator.chains(Table::Nat).len(), 4);
}

#[test]
fn loops_and_depths_are_refused_where_packets_could_get_to_them() {
    let mut simulator = holding(CHAINS, "");
    assert_eq!(refused_at(&mut simulator, "-A B -j A"), None);
    assert_eq!(refused_at(&mut simulator, "-A PREROUTING -j A"), Some(3));
    assert_eq!(refused_at(&mut simulator, "-D B -j A\n-A PREROUTING -j A"), None);
    assert_eq!(refused_at(&mut simulator, "-A POSTROUTING -j B"), Some(3), "no DNAT there");
    let deep = |levels: usize| {
        let declared: String = (0..levels).map(|level| format!(":D{level} - [0:0]\n")).collect();
        let jumps: String = (1..levels).map(|level| format!("-A D{} -j D{level}\n", level - 1)).collect();
        format!("{declared}{jumps}-A PREROUTING -j D0")
    };
    assert!(refused_at(&mut simulator, &deep(16)).is_some());
    assert_eq!(refused_at(&mut simulator, &deep(15)), None);
}

#[test]
fn faults_strike_once_where_they_are_to() {
    let mut simulator = holding(CHAINS, ":F - [0:0]");
    let script = |simulator: &mut Simulator| restore(simulator, "-A A -j RETURN", "-A F -j RETURN");
    let held = |simulator: &Simulator| {
        (rules(simulator, Table::Nat, "A").len(), rules(simulator, Table::Filter, "F").len())
    };
    for (fault, wanted) in [
        (Fault::Locked, (1, 0)),
        (Fault::AtLine(2), (1, 0)),
        (Fault::AtCommit(Table::Filter), (2, 0)),
        (Fault::AtLine(5), (3, 0)),
    ] {
        simulator.fail_next(fault);
        script(&mut simulator).unwrap_err();
        assert_eq!(held(&simulator), wanted, "{fault:?}");
    }
    script(&mut simulator).unwrap();
    assert_eq!(held(&simulator), (4, 1));
    assert_eq!(simulator.restores(), 6);
}

#[test]
fn what_is_saved_can_be_restored_and_says_the_same() {
    let nat = r#"-A KUBE-SVC-X ! -s 10.244.0.0/16 -d 10.96.0.1/32 -i cali+ -p tcp -m tcp --dport 80:90 -m comment --comment "a/b:\"c\" \\ d" -j KUBE-MARK-MASQ
-A KUBE-SVC-X -p tcp -m statistic --mode random --probability 0.33333333349 -j DNAT --to-destination 10.0.0.1:80
-A KUBE-SVC-X -m recent --rcheck --seconds 10 --reap --name L --mask 255.255.255.255 --rsource -m mark ! --mark 0x4000/0x4000 -m addrtype --dst-type LOCAL -g KUBE-MARK-MASQ
-A KUBE-SVC-X -m conntrack ! --ctstate INVALID,DNAT -m comment --comment plain -j MARK --set-xmark 0x4000/0x0"#;
    let declared = ":KUBE-SVC-X - [0:0]\n:KUBE-MARK-MASQ - [0:0]";
    let mut simulator = holding(&format!("{declared}\n{nat}"), "[3:180] -A FORWARD -j REJECT");
    assert_eq!(simulator.counters(Table::Filter, "FORWARD").unwrap()[0].packets, 3);
    let saved = simulator.save(Table::Nat).unwrap();
    assert!(saved.contains(nat), "{saved}");
    let mut again = Simulator::default();
    again.restore(&saved).unwrap();
    assert_eq!(again.save(Table::Nat).unwrap(), saved);
    assert!(
        simulator
            .save(Table::Filter)
            .unwrap()
            .contains("-A FORWARD -j REJECT --reject-with icmp-port-unreachable\n")
    );
}

#[test]
fn families_are_kept_apart() {
    let mut simulator = Simulator::new(true);
    assert_eq!(refused_at(&mut simulator, "-A OUTPUT -d 10.0.0.1"), Some(2));
    let rule = "-A OUTPUT -d fd00::1 -p tcp -m recent --set --name L -j DNAT --to-destination [fd00::2]:80";
    assert_eq!(refused_at(&mut simulator, rule), None);
    let mask = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    let held = format!(
        "-d fd00::1/128 -p tcp -m recent --set --name L --mask {mask} --rsource -j DNAT --to-destination [fd00::2]:80"
    );
    assert_eq!(rules(&simulator, Table::Nat, "OUTPUT"), [held]);
}

#[test]
fn old_tools_know_no_random_fully() {
    let mut simulator = Simulator::default().without_random_fully();
    assert!(!simulator.has_random_fully());
    assert_eq!(refused_at(&mut simulator, "-A POSTROUTING -j MASQUERADE --random-fully"), Some(2));
    assert_eq!(refused_at(&mut simulator, "-A POSTROUTING -j MASQUERADE"), None);
}

#[test]
fn another_program_can_interfere() {
    let mut simulator = holding(CHAINS, ":F - [0:0]\n-A F -j DROP");
    let before = simulator.stamp();
    simulator.run(Table::Nat, "-D A 1").unwrap();
    assert_ne!(simulator.stamp(), before);
    assert_eq!(simulator.restores(), 1);
    simulator.run(Table::Nat, "-F").unwrap();
    simulator.run(Table::Nat, "-X").unwrap();
    assert_eq!(simulator.chains(Table::Nat), ["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"]);
    assert_eq!(rules(&simulator, Table::Filter, "F"), ["-j DROP"]);
    simulator.run(Table::Filter, "-X F").unwrap_err();
}
