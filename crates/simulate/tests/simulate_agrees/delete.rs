//! Deleting sets and chains together with the rules that used them, and listing what is left: the kernel and
//! the simulator do the same.

use kernel::netns::{Namespace, privileged_test};
use kernel::nft::*;
use simulate::nft::Simulator;

const VERDICTS: Set<'_> = Set {
    name: "service-ips",
    key_type: 7 << 12 | 12 << 6 | 13,
    key_length: 12,
    data: Some((VERDICT, 0)),
    flags: SetFlags { interval: false, timeout: false, dynamic: false, counters: false },
    size: 0,
    user_data: &[],
};

const ADDRESSES: Set<'_> = Set { name: "cluster-ips", key_type: 7, key_length: 4, data: None, ..VERDICTS };

fn batch() -> Batch {
    Batch::new(TableFamily::Ip, "test")
}

/// Chains and sets that rules and elements refer to, beside a table of which nothing may be listed.
fn furnished() -> [Batch; 2] {
    let mut other = Batch::new(TableFamily::Ip, "other");
    other.add_table("");
    other.add_chain(&Chain { name: "elsewhere", hook: None });
    let mut furnished = batch();
    furnished.add_table("made by a test");
    furnished.add_set(&VERDICTS);
    furnished.add_set(&ADDRESSES);
    furnished.add_chain(&Chain { name: "lb-1", hook: None });
    furnished.add_chain(&Chain { name: "lb-2", hook: None });
    let load = Expression::Payload { base: Base::Network, offset: 16, length: 4, to: Reg(8) };
    let member = Expression::Lookup { set: "cluster-ips", key: Reg(8), to: None, invert: false };
    let goto = Expression::Verdict(VerdictCode::Goto("lb-2"));
    furnished.add_rule(&Rule { chain: "lb-1", expressions: vec![load, member, goto] });
    furnished.add_element("cluster-ips", &[10, 96, 0, 1], ElementData::None, None);
    furnished.add_element(
        "service-ips",
        &[10, 96, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0],
        ElementData::Goto("lb-2"),
        None,
    );
    [other, furnished]
}

fn objects_go_with_the_rules_that_used_them(transport: &mut dyn Transport) {
    for batch in furnished() {
        transport.commit(&batch).expect("a furnished table");
    }
    let names = |transport: &mut dyn Transport| {
        let chains = transport.chains(TableFamily::Ip, "test").expect("chains");
        let mut names = [chains, transport.sets(TableFamily::Ip, "test").expect("sets")].concat();
        names.sort();
        names
    };
    assert_eq!(names(transport), ["cluster-ips", "lb-1", "lb-2", "service-ips"]);
    let mut in_use = batch();
    in_use.delete_set("cluster-ips");
    let error = transport.commit(&in_use).expect_err("EBUSY");
    assert_eq!(error.to_string(), "deleting set \"cluster-ips\": it is still in use (EBUSY)");
    let mut in_use = batch();
    in_use.flush_rules();
    in_use.delete_chain("lb-2");
    let error = transport.commit(&in_use).expect_err("EBUSY");
    assert_eq!(error.to_string(), "deleting chain \"lb-2\": it is still in use (EBUSY)");
    let mut all = batch();
    all.flush_rules();
    all.flush_set("service-ips");
    all.delete_set("cluster-ips");
    all.delete_set("service-ips");
    all.delete_chain("lb-2");
    transport.commit(&all).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(names(transport), ["lb-1"]);
    let mut gone = batch();
    gone.delete_chain("lb-2");
    let error = transport.commit(&gone).expect_err("ENOENT");
    assert_eq!(error.to_string(), "deleting chain \"lb-2\": the chain or its table does not exist (ENOENT)");
    assert!(transport.chains(TableFamily::Ip, "absent").expect("chains").is_empty());
    assert!(transport.sets(TableFamily::Ip, "absent").expect("sets").is_empty());
}

#[test]
fn the_kernel_deletes_objects_with_the_rules_that_used_them() {
    privileged_test(|| {
        let namespace = Namespace::new().expect("a namespace");
        let mut connection = namespace.run(Connection::open).expect("a connection");
        objects_go_with_the_rules_that_used_them(&mut connection);
    })
}

#[test]
fn the_simulator_deletes_objects_with_the_rules_that_used_them() {
    objects_go_with_the_rules_that_used_them(&mut Simulator::new());
}
