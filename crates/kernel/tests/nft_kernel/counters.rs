//! Named counters and the maps that lead to them: what packets do to them, and what our own batches do not.

use std::net::UdpSocket;

use kernel::link::Links;
use kernel::netns::privileged_test;
use kernel::nft::*;

use crate::space::{batch, in_namespace};

const OUTPUT: u32 = 3;
const DESTINATION: [u8; 4] = [127, 0, 0, 2];
/// Of a datagram of ten bytes.
const LENGTH: u64 = 20 + 8 + 10;

/// What the host sends is counted by destination and direction.
fn counting() -> Batch {
    let mut batch = batch();
    batch.add_table("");
    batch.add_counter("request/default/web/udp/dns");
    batch.add_set(&Set {
        name: "counted",
        key_type: 7 << 6 | 27,
        key_length: 8,
        data: None,
        flags: SetFlags { counters: true, ..SetFlags::default() },
        size: 0,
        user_data: &[],
    });
    let hook = Hook { kind: HookKind::Filter, number: OUTPUT, priority: 0 };
    batch.add_chain(&Chain { name: "output", hook: Some(hook) });
    let key = Reg(8);
    let load = Expression::Payload { base: Base::Network, offset: 16, length: 4, to: key };
    let direction = Expression::Ct { key: CtKey::Direction, direction: None, to: Reg(9) };
    let count = Expression::CountIn { map: "counted", key };
    batch.add_rule(&Rule { chain: "output", expressions: vec![load, direction, count] });
    let key = [DESTINATION, [0; 4]].concat();
    batch.add_element("counted", &key, ElementData::Counter("request/default/web/udp/dns"), None);
    batch
}

fn readings(connection: &mut Connection) -> Vec<(String, u64, u64)> {
    let mut all = Vec::new();
    let mut note = |one: CounterReading<'_>| all.push((one.name.to_owned(), one.packets, one.bytes));
    connection.counters(TableFamily::Ip, "test", &mut note).expect("counters");
    all
}

#[test]
fn packets_count_and_a_counter_written_again_keeps_its_count() {
    privileged_test(|| {
        in_namespace(|mut space| {
            space.namespace.run(|| Links::open().and_then(|mut links| links.set_up("lo")).expect("lo"));
            space.commit(&counting());
            let socket = space.namespace.run(|| UdpSocket::bind("127.0.0.1:0")).expect("a socket");
            for _ in 0..7 {
                socket.send_to(&[0; 10], "127.0.0.2:9").expect("to send");
            }
            let counted = [("request/default/web/udp/dns".to_owned(), 7, 7 * LENGTH)];
            assert_eq!(readings(&mut space.connection), counted);
            let mut again = batch();
            again.flush_rules();
            again.flush_set("counted");
            space.commit(&again);
            space.commit(&counting());
            assert_eq!(readings(&mut space.connection), counted, "after a rewrite in place");
        })
    })
}

#[test]
fn elements_name_their_counter_and_hold_it() {
    privileged_test(|| {
        in_namespace(|mut space| {
            space.commit(&counting());
            let mut names = Vec::new();
            let mut note = |one: DumpedElement<'_>| names.push(format!("{:?}", one.data));
            space.connection.dump_elements(TableFamily::Ip, "test", "counted", &mut note).expect("elements");
            assert_eq!(names, ["Counter(\"request/default/web/udp/dns\")"]);
            let mut held = batch();
            held.delete_counter("request/default/web/udp/dns");
            let error = space.connection.commit(&held).expect_err("EBUSY").to_string();
            assert_eq!(error, "deleting counter \"request/default/web/udp/dns\": it is still in use (EBUSY)");
            let mut missing = batch();
            missing.delete_counter("other");
            let error = space.connection.commit(&missing).expect_err("ENOENT").to_string();
            assert_eq!(error, "deleting counter \"other\": the counter or its table does not exist (ENOENT)");
            let mut freed = batch();
            freed.flush_set("counted");
            freed.delete_counter("request/default/web/udp/dns");
            space.commit(&freed);
            assert_eq!(readings(&mut space.connection), []);
        })
    })
}
