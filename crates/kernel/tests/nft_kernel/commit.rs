//! Commits: what succeeds, what fails, and whether the error names the culprit.

use kernel::netns::privileged_test;
use kernel::nft::*;

use crate::space::{batch, in_namespace};

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

fn key(last: u8, port: u16) -> [u8; 12] {
    let [high, low] = port.to_be_bytes();
    [10, 96, 0, last, 6, 0, 0, 0, high, low, 0, 0]
}

/// A table with the two sets above, and chains `lb-1` and `lb-2`.
fn table() -> Batch {
    let mut batch = batch();
    batch.add_table("made by a test");
    batch.add_set(&VERDICTS);
    batch.add_set(&ADDRESSES);
    batch.add_chain(&Chain { name: "lb-1", hook: None });
    batch.add_chain(&Chain { name: "lb-2", hook: None });
    batch
}

#[test]
fn a_committed_batch_raises_the_generation_and_an_empty_one_does_nothing() {
    privileged_test(|| {
        in_namespace(|mut space| {
            let before = space.connection.generation().expect("a generation");
            space.commit(&batch());
            assert_eq!(space.connection.generation().expect("a generation"), before);
            space.commit(&table());
            assert_eq!(space.connection.generation().expect("a generation"), before + 1);
        })
    })
}

#[test]
fn replacing_a_table_works_whether_it_is_there_or_not() {
    privileged_test(|| {
        in_namespace(|mut space| {
            for _ in 0..2 {
                let mut replace = batch();
                replace.add_table("");
                replace.delete_table();
                replace.add_table("replaced");
                replace.add_set(&ADDRESSES);
                replace.add_element("cluster-ips", &[10, 96, 0, 1], ElementData::None, None);
                space.commit(&replace);
            }
            let tables = space.connection.tables(TableFamily::Ip).expect("tables");
            assert_eq!(tables, [Table { name: "test".into(), comment: "replaced".into() }]);
            assert_eq!(space.connection.tables(TableFamily::Ip6).expect("tables"), []);
            assert_eq!(space.connection.sets(TableFamily::Ip, "test").expect("sets"), ["cluster-ips"]);
            let mut gone = batch();
            gone.delete_table_if_present();
            space.commit(&gone);
            space.commit(&gone);
            assert_eq!(space.connection.tables(TableFamily::Ip).expect("tables"), []);
        })
    })
}

#[test]
fn an_element_with_other_data_is_named_among_many() {
    privileged_test(|| {
        in_namespace(|mut space| {
            let mut first = table();
            first.add_element("service-ips", &key(7, 80), ElementData::Goto("lb-1"), None);
            space.commit(&first);
            let mut second = batch();
            second.add_element("cluster-ips", &[10, 96, 0, 9], ElementData::None, None);
            for last in 1..20 {
                second.add_element("service-ips", &key(last, 80), ElementData::Goto("lb-2"), None);
            }
            let error = space.connection.commit(&second).expect_err("EEXIST");
            assert_eq!(error.kind, CommitErrorKind::Exists);
            assert!(!error.retryable);
            assert_eq!(
                error.to_string(),
                "adding element 0a600007 06000000 00500000 to map \"service-ips\": \
                 it exists already with other data (EEXIST)"
            );
            assert_eq!(count(&mut space.connection, "service-ips"), 1, "all or nothing");
            assert_eq!(count(&mut space.connection, "cluster-ips"), 0, "all or nothing");
            space.commit(&first);
        })
    })
}

#[test]
fn a_missing_element_is_named_and_leaves_no_stale_answer() {
    privileged_test(|| {
        in_namespace(|mut space| {
            space.commit(&table());
            let mut delete = batch();
            for last in 1..=200 {
                delete.delete_element("service-ips", &key(last, 443));
                delete.delete_element("cluster-ips", &[10, 96, 0, last]);
            }
            let error = space.connection.commit(&delete).expect_err("ENOENT");
            assert_eq!(error.kind, CommitErrorKind::Missing);
            assert_eq!(
                error.to_string(),
                "deleting element 0a600001 06000000 01bb0000 from \"service-ips\": it is not there (ENOENT)"
            );
            // 400 messages failed; the answers to all of them must not spoil the next commit.
            let mut next = batch();
            next.add_element("cluster-ips", &[10, 96, 0, 1], ElementData::None, None);
            space.commit(&next);
        })
    })
}

#[test]
fn an_element_is_replaced_in_one_transaction() {
    privileged_test(|| {
        in_namespace(|mut space| {
            let mut first = table();
            first.add_element("service-ips", &key(1, 80), ElementData::Goto("lb-1"), None);
            space.commit(&first);
            let mut change = batch();
            change.delete_element("service-ips", &key(1, 80));
            change.add_element("service-ips", &key(1, 80), ElementData::Goto("lb-2"), None);
            space.commit(&change);
            let mut data = Vec::new();
            let connection = &mut space.connection;
            connection
                .dump_elements(TableFamily::Ip, "test", "service-ips", &mut |one| {
                    data.push(format!("{:?}", one.data))
                })
                .expect("a dump");
            assert_eq!(data, ["Goto(\"lb-2\")"]);
        })
    })
}

#[test]
fn rules_name_the_instruction_that_failed() {
    privileged_test(|| {
        in_namespace(|mut space| {
            space.commit(&table());
            let mut rules = batch();
            let good = vec![Expression::Verdict(VerdictCode::Accept)];
            rules.add_rule(&Rule { chain: "lb-1", expressions: good });
            let load = Expression::Payload { base: Base::Network, offset: 16, length: 4, to: Reg(8) };
            let lookup = Expression::Lookup { set: "absent", key: Reg(8), to: None, invert: false };
            rules.add_rule(&Rule { chain: "lb-1", expressions: vec![load, lookup] });
            let error = space.connection.commit(&rules).expect_err("ENOENT");
            assert_eq!(
                error.to_string(),
                "adding rule 2 of chain \"lb-1\", instruction 2 (lookup \"absent\"): \
                 \"absent\" does not exist (ENOENT)"
            );
        })
    })
}

#[test]
fn other_objects_are_named() {
    privileged_test(|| {
        in_namespace(|mut space| {
            let mut chain = batch();
            chain.add_chain(&Chain { name: "alone", hook: None });
            let error = space.connection.commit(&chain).expect_err("ENOENT");
            assert_eq!(error.to_string(), "adding chain \"alone\": the table does not exist (ENOENT)");
            let mut delete = batch();
            delete.delete_table();
            let error = space.connection.commit(&delete).expect_err("ENOENT");
            assert_eq!(error.to_string(), "deleting table \"ip test\": it does not exist (ENOENT)");
            space.commit(&table());
            let mut element = batch();
            element.add_element("service-ips", &key(1, 80), ElementData::Goto("lb-77"), None);
            let error = space.connection.commit(&element).expect_err("ENOENT");
            assert_eq!(
                error.to_string(),
                "adding element 0a600001 06000000 00500000 to map \"service-ips\": \
                 the map or chain \"lb-77\" does not exist (ENOENT)"
            );
        })
    })
}

fn count(connection: &mut Connection, set: &str) -> usize {
    let mut count = 0;
    connection.dump_elements(TableFamily::Ip, "test", set, &mut |_| count += 1).expect("a dump");
    count
}
