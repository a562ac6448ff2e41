//! A stamp changes when a table does, and looking changes nothing.

use kernel::iptables::{Stamp, Table, Tables, Tools, Variant, legacy_has_chain};
use kernel::netns::{Namespace, privileged_test};

use crate::place::{in_place, with_each};

fn stamp(tools: &mut Tools) -> Stamp {
    tools.stamp().expect("a stamp")
}

#[test]
fn a_stamp_changes_with_each_change_and_only_then() {
    privileged_test(|| {
        with_each(|mut tools| {
            let before = stamp(&mut tools);
            assert_eq!(stamp(&mut tools), before);
            let mut last = before;
            for (what, script) in [
                ("chains are made", "*nat\n:A - [0:0]\n:B - [0:0]\nCOMMIT\n*filter\n:A - [0:0]\nCOMMIT\n"),
                ("rules are made", "*nat\n-A A -j RETURN\n-A A -j B\n-A POSTROUTING -j A\nCOMMIT\n"),
                ("a rule is made in the other table", "*filter\n-A A -j RETURN\nCOMMIT\n"),
                ("one rule is removed", "*nat\n-D A -j RETURN\nCOMMIT\n"),
                ("one rule is added", "*nat\n-A A -j RETURN\nCOMMIT\n"),
                ("a chain is emptied", "*nat\n-F A\nCOMMIT\n"),
                ("the table is emptied", "*nat\n-F\nCOMMIT\n"),
                ("a chain goes", "*filter\n-F A\n-X A\nCOMMIT\n"),
            ] {
                tools.restore(script).unwrap_or_else(|error| panic!("{error}"));
                let next = stamp(&mut tools);
                assert_ne!(next, last, "{what}");
                for table in Table::BOTH {
                    tools.save(table).unwrap();
                }
                assert_eq!(stamp(&mut tools), next, "looked at after {what}");
                last = next;
            }
        });
    });
}

#[test]
fn what_happens_in_another_namespace_or_family_is_not_seen_in_legacy_tables() {
    privileged_test(|| {
        in_place(|place| {
            let mut tools = place.toolbox().of(Variant::Legacy, false).unwrap();
            let before = stamp(&mut tools);
            let script = "*nat\n:A - [0:0]\nCOMMIT\n";
            Namespace::new().unwrap().run(|| {
                place.toolbox().of(Variant::Legacy, false).unwrap().restore(script).unwrap();
            });
            place.toolbox().of(Variant::Legacy, true).unwrap().restore(script).unwrap();
            assert_eq!(stamp(&mut tools), before);
        });
    });
}

#[test]
fn chains_of_legacy_tables_are_found_without_a_program() {
    privileged_test(|| {
        in_place(|place| {
            let has = |is_ipv6, chain| legacy_has_chain(is_ipv6, Table::Nat, chain).unwrap();
            assert!(!has(false, "A") && !has(true, "A"), "no table is loaded");
            for is_ipv6 in [false, true] {
                let mut tools = place.toolbox().of(Variant::Legacy, is_ipv6).unwrap();
                tools.restore("*nat\n:AB - [0:0]\n-A AB -p tcp -j RETURN\nCOMMIT\n").unwrap();
                assert!(has(is_ipv6, "AB") && !has(is_ipv6, "A") && !has(is_ipv6, "B"));
                assert!(!legacy_has_chain(is_ipv6, Table::Filter, "AB").unwrap());
                tools.restore("*nat\n-F AB\n-X AB\nCOMMIT\n").unwrap();
                assert!(!has(is_ipv6, "AB"));
            }
        });
    });
}

#[test]
fn a_stamp_loads_no_legacy_table() {
    privileged_test(|| {
        in_place(|place| {
            let mut tools = place.toolbox().of(Variant::Legacy, false).unwrap();
            // Trying it out has loaded one of the two.
            let [filter, ..] = stamp(&mut tools).0;
            let loaded = std::fs::read_to_string("/proc/thread-self/net/ip_tables_names").unwrap();
            assert_eq!((filter, loaded.trim()), (0, "nat"));
        });
    });
}
