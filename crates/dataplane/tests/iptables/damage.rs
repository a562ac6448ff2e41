//! What others do to our rules is noticed and repaired; what they do beside them is not taken for damage.

use std::time::{Duration, Instant};

use super::*;

/// Rules are looked at after a pause.
const DEADLINE: Duration = Duration::from_secs(20);

fn is_noticed(reconciler: &mut Simulated) -> bool {
    let until = Instant::now() + DEADLINE;
    while Instant::now() < until {
        if reconciler.check(Family::V4) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

fn is_noticed_and_repaired(table: Table, damage: &dyn Fn(&mut Simulator)) {
    let (mut reconciler, fixture) = synced();
    assert!(!reconciler.check(Family::V4));
    damage(tables(&mut reconciler));
    assert!(is_noticed(&mut reconciler), "{table:?}");
    assert!(sync(&mut reconciler, &fixture, &[]).full);
    assert_as_fresh(&mut reconciler, &fixture, "repaired");
    assert!(!reconciler.check(Family::V4));
}

#[test]
fn a_flushed_table() {
    for table in Table::BOTH {
        is_noticed_and_repaired(table, &|tables| tables.run(table, "-F").unwrap());
    }
}

#[test]
fn a_table_without_chains() {
    for table in Table::BOTH {
        is_noticed_and_repaired(table, &|tables| {
            tables.run(table, "-F").unwrap();
            tables.run(table, "-X").unwrap();
        });
    }
}

#[test]
fn single_rules() {
    let commands = [
        (Table::Nat, "-D PREROUTING 1"),
        (Table::Nat, "-D POSTROUTING 1"),
        (Table::Nat, "-D KUBE-SERVICES 2"),
        (Table::Nat, "-D KUBE-MARK-MASQ 1"),
        (Table::Nat, "-A KUBE-NODEPORTS -j RETURN"),
        (Table::Nat, "-I KUBE-POSTROUTING -j RETURN"),
        (Table::Filter, "-D FORWARD 2"),
        (Table::Filter, "-D KUBE-FORWARD 1"),
        (Table::Filter, "-D KUBE-SERVICES 1"),
        (Table::Filter, "-I KUBE-PROXY-FIREWALL -j ACCEPT"),
    ];
    for (table, command) in commands {
        is_noticed_and_repaired(table, &|tables| tables.run(table, command).unwrap());
    }
}

#[test]
fn one_endpoint_of_one_service() {
    is_noticed_and_repaired(Table::Nat, &|tables| {
        let chain = chain_of(tables, Table::Nat, "default/plain:http cluster IP");
        tables.run(Table::Nat, &format!("-D {chain} 2")).unwrap();
    });
}

#[test]
fn what_others_write_beside_ours_is_not_damage() {
    let (mut reconciler, _) = synced();
    tables(&mut reconciler).run(Table::Filter, "-I INPUT -s 198.51.100.9 -j DROP").unwrap();
    tables(&mut reconciler).run(Table::Nat, "-N MINE").unwrap();
    let until = Instant::now() + Duration::from_secs(1);
    while Instant::now() < until {
        assert!(!reconciler.check(Family::V4));
        std::thread::sleep(Duration::from_millis(10));
    }
}
