//! The simulator in the kernel's place: transactions, listings, and what others do meanwhile.

use kernel::netlink::Writer;
use kernel::nft::*;

use super::layout::*;
use crate::nft::Simulator;

fn comments(simulator: &mut Simulator, set: &str) -> Vec<Option<String>> {
    let mut found = Vec::new();
    let mut note = |one: DumpedElement<'_>| found.push(one.comment.map(str::to_owned));
    simulator.dump_elements(TableFamily::Ip, TABLE, set, &mut note).unwrap();
    found
}

#[test]
fn it_lists_what_it_holds() {
    let mut simulator = simulator();
    let table = Table { name: TABLE.to_owned(), comment: "flat layout, small".to_owned() };
    assert_eq!(simulator.tables(TableFamily::Ip).unwrap(), [table]);
    assert_eq!(simulator.tables(TableFamily::Ip6).unwrap(), []);
    assert!(simulator.sets(TableFamily::Ip, TABLE).unwrap().contains(&"endpoints".to_owned()));
    assert_eq!(simulator.sets(TableFamily::Ip, "nowhere").unwrap(), Vec::<String>::new());
    assert!(comments(&mut simulator, "service-ips").contains(&Some("web".to_owned())));
    let missing = simulator.dump_elements(TableFamily::Ip, TABLE, "nowhere", &mut |_| {});
    assert_eq!(missing.unwrap_err().errno(), Some(libc::ENOENT));
}

#[test]
fn a_refused_commit_names_the_object_and_changes_nothing() {
    let mut simulator = simulator();
    let before = (simulator.generation().unwrap(), simulator.count(TableFamily::Ip, TABLE, "endpoints"));
    let mut batch = Batch::new(TableFamily::Ip, TABLE);
    batch.flush_rules();
    batch.flush_set("endpoints");
    batch.delete_element("cluster-ips", &[1, 2, 3, 4]);
    let error = simulator.commit(&batch).unwrap_err();
    assert_eq!((error.kind, error.errno), (CommitErrorKind::Missing, libc::ENOENT));
    assert!(error.object.contains("cluster-ips"), "{error}");
    assert_eq!(
        (simulator.generation().unwrap(), simulator.count(TableFamily::Ip, TABLE, "endpoints")),
        before
    );
    let journey = crate::walk(&mut simulator, &host(), packet(POD, WEB, 80), &mut |_| 0);
    assert!(journey.delivery().is_some(), "the rules are there as well");
}

#[test]
fn a_failure_can_be_had_on_demand() {
    let mut simulator = simulator();
    let mut batch = Batch::new(TableFamily::Ip, TABLE);
    batch.add_element("cluster-ips", &[1, 2, 3, 4], ElementData::None, None);
    simulator.fail_next(libc::ENOMEM);
    assert_eq!(simulator.commit(&batch).unwrap_err().kind, CommitErrorKind::OutOfMemory);
    assert!(!simulator.has_element(TableFamily::Ip, TABLE, "cluster-ips", &[1, 2, 3, 4]));
    simulator.commit(&batch).unwrap();
    assert!(simulator.has_element(TableFamily::Ip, TABLE, "cluster-ips", &[1, 2, 3, 4]));
}

#[test]
fn the_generation_tells_of_changes_and_only_of_them() {
    let mut simulator = simulator();
    let mut last = simulator.generation().unwrap();
    let mut moved = |simulator: &mut Simulator| {
        let now = simulator.generation().unwrap();
        std::mem::replace(&mut last, now) != now
    };
    commit(&mut simulator, |batch| batch.add_element("cluster-ips", &WEB, ElementData::None, None));
    assert!(!moved(&mut simulator), "it was there already");
    commit(&mut simulator, |batch| batch.delete_element("cluster-ips", &WEB));
    assert!(moved(&mut simulator));
    assert!(!simulator.delete_element(TableFamily::Ip, TABLE, "cluster-ips", &WEB) && !moved(&mut simulator));
    assert!(simulator.delete_element(TableFamily::Ip, TABLE, "cluster-ips", &EMPTY) && moved(&mut simulator));
    assert!(simulator.flush_set(TableFamily::Ip, TABLE, "endpoints") && moved(&mut simulator));
    assert_eq!(simulator.count(TableFamily::Ip, TABLE, "endpoints"), Some(0));
    assert!(simulator.flush_table(TableFamily::Ip, TABLE) && moved(&mut simulator));
    assert!(!simulator.delete_rule(TableFamily::Ip, TABLE, "services", 0), "it went with all the others");
    assert!(simulator.delete_table(TableFamily::Ip, TABLE) && moved(&mut simulator));
    assert!(simulator.table_names(TableFamily::Ip).is_empty());
}

#[test]
fn a_set_declared_again_takes_on_the_size() {
    let mut simulator = Simulator::new();
    let flags = SetFlags::default();
    let mut declare = |size, key: u8| {
        let set = Set { name: "s", key_type: 0, key_length: 1, data: None, flags, size, user_data: &[] };
        let mut batch = Batch::new(TableFamily::Ip, TABLE);
        batch.add_table("");
        batch.add_set(&set);
        simulator.commit(&batch).unwrap();
        let mut batch = Batch::new(TableFamily::Ip, TABLE);
        batch.add_element("s", &[key], ElementData::None, None);
        simulator.commit(&batch).map_err(|error| error.kind)
    };
    assert_eq!(declare(1, 1), Ok(()));
    assert_eq!(declare(1, 2), Err(CommitErrorKind::Full));
    assert_eq!(declare(2, 2), Ok(()));
    assert_eq!(declare(0, 3), Err(CommitErrorKind::Full), "no size named, none changed");
}

#[test]
fn a_batch_made_for_another_generation_is_refused() {
    let mut simulator = simulator();
    let generation = simulator.generation().unwrap();
    let mut attempt = |generation: u32| {
        let mut writer = Writer::default();
        let begin = writer.begin(16, 1, 1, &[0, 0, 0, 10]);
        writer.be32(1, generation);
        writer.end(begin);
        let end = writer.begin(17, 1, 2, &[0, 0, 0, 10]);
        writer.end(end);
        simulator.commit_bytes(writer.bytes()).map_err(|error| error.errno)
    };
    assert_eq!(attempt(generation), Ok(()));
    assert_eq!(attempt(generation - 1), Err(libc::ERESTART));
}

#[test]
fn damaged_bytes_are_refused_without_harm() {
    let mut batch = Batch::new(TableFamily::Ip, TABLE);
    batch.add_table("x");
    batch.add_chain(&Chain { name: "c", hook: None });
    let whole = batch.bytes().to_vec();
    for length in 0..whole.len() {
        let mut simulator = Simulator::new();
        assert!(simulator.commit_bytes(&whole[..length]).is_err(), "cut at {length}");
        assert!(simulator.table_names(TableFamily::Ip).is_empty());
    }
    for index in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[index] ^= 0xff;
        // Whatever it makes of it: it must not panic.
        let _ = Simulator::new().commit_bytes(&damaged);
    }
}

#[test]
fn a_large_batch_is_taken_back_as_a_whole() {
    let mut simulator = simulator();
    let fill = |batch: &mut Batch| {
        for number in 0..20_000_u32 {
            batch.add_element("cluster-ips", &(number | 1 << 30).to_be_bytes(), ElementData::None, None);
        }
    };
    let mut batch = Batch::new(TableFamily::Ip, TABLE);
    batch.flush_set("cluster-ips");
    fill(&mut batch);
    batch.delete_element("cluster-ips", &WEB);
    assert_eq!(simulator.commit_bytes(batch.bytes()).unwrap_err().errno, libc::ENOENT);
    assert_eq!(simulator.count(TableFamily::Ip, TABLE, "cluster-ips"), Some(3));
    commit(&mut simulator, fill);
    assert_eq!(simulator.count(TableFamily::Ip, TABLE, "cluster-ips"), Some(20_003));
}
