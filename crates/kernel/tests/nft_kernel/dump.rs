//! Reading elements back.

use std::time::{Duration, Instant};

use kernel::netns::privileged_test;
use kernel::nft::*;

use crate::space::{Space, batch, in_namespace};

const SLOTS: Set<'_> = Set {
    name: "slots",
    key_type: 19,
    key_length: 4,
    data: Some((7, 4)),
    flags: SetFlags { interval: false, timeout: false, dynamic: false, counters: false },
    size: 0,
    user_data: &[],
};

#[test]
fn sixty_thousand_elements_come_back_as_they_went() {
    privileged_test(|| {
        in_namespace(|mut space| {
            let mut load = batch();
            load.add_table("");
            load.add_set(&SLOTS);
            // In pieces that an ordinary user's send buffer holds, too.
            for piece in 0..30 {
                for number in piece * 2000..(piece + 1) * 2000u32 {
                    let data = number.to_be_bytes();
                    load.add_element("slots", &number.to_ne_bytes(), ElementData::Value(&data), None);
                }
                space.commit(&load);
                load = batch();
            }
            // The kernel spreads the new set over more buckets in the background. A dump that falls into that
            // leaves out elements, so look again until it is done.
            let deadline = Instant::now() + Duration::from_secs(30);
            while !complete(&mut space.connection) {
                assert!(Instant::now() < deadline, "elements are missing for good");
            }
            let Space { namespace, connection } = &mut space;
            namespace.run(|| {
                let slots = (TableFamily::Ip, "test", "slots");
                let counted =
                    |most| Connection::count_elements(slots.0, slots.1, slots.2, most).expect("a count");
                assert_eq!(counted(usize::MAX), 60_000);
                let some = counted(1_000);
                assert!((1_001..2_000).contains(&some), "it ends soon after that: {some}");
                let size = connection.set_size(slots.0, slots.1, slots.2, 1_000).expect("a size");
                assert!(size > 1_000, "{size}");
            });
        })
    })
}

fn complete(connection: &mut Connection) -> bool {
    let mut seen = vec![false; 60_000];
    connection
        .dump_elements(TableFamily::Ip, "test", "slots", &mut |one| {
            let number = u32::from_ne_bytes(one.key.try_into().expect("four bytes"));
            assert_eq!(one.data, ElementData::Value(&number.to_be_bytes()));
            assert_eq!((one.timeout_ms, one.expires_ms, one.comment), (None, None, None));
            seen[number as usize] = true;
        })
        .expect("a dump");
    seen.iter().all(|seen| *seen)
}

#[test]
fn comments_and_intervals_are_read() {
    privileged_test(|| {
        in_namespace(|mut space| {
            let mut load = batch();
            load.add_table("");
            load.add_set(&Set { name: "plain", data: None, ..SLOTS });
            load.add_element("plain", &[1, 0, 0, 0], ElementData::None, Some("default/web:http"));
            let flags = SetFlags { interval: true, ..SetFlags::default() };
            load.add_set(&Set { name: "ranges", key_type: 7, data: None, flags, ..SLOTS });
            load.add_interval("ranges", &[10, 96, 0, 0], Some(&[10, 97, 0, 0]));
            load.add_interval("ranges", &[224, 0, 0, 0], None);
            space.commit(&load);
            let mut read = |set| {
                let mut lines = Vec::new();
                let mut each = |one: DumpedElement<'_>| {
                    lines.push((one.key.to_vec(), one.interval_end, one.comment.map(str::to_owned)));
                };
                space.connection.dump_elements(TableFamily::Ip, "test", set, &mut each).expect("a dump");
                lines.sort();
                lines
            };
            assert_eq!(read("plain"), [(vec![1, 0, 0, 0], false, Some("default/web:http".into()))]);
            assert_eq!(
                read("ranges"),
                [
                    (vec![10, 96, 0, 0], false, None),
                    (vec![10, 97, 0, 0], true, None),
                    (vec![224, 0, 0, 0], false, None)
                ]
            );
            let mut less = batch();
            less.delete_interval("ranges", &[224, 0, 0, 0], None);
            less.delete_interval("ranges", &[10, 96, 0, 0], Some(&[10, 97, 0, 0]));
            space.commit(&less);
            let mut none = true;
            let mut each = |_: DumpedElement<'_>| none = false;
            space.connection.dump_elements(TableFamily::Ip, "test", "ranges", &mut each).expect("a dump");
            assert!(none);
        })
    })
}

#[test]
fn a_set_that_is_not_there_is_an_error() {
    privileged_test(|| {
        in_namespace(|mut space| {
            let dump = space.connection.dump_elements(TableFamily::Ip, "test", "absent", &mut |_| {});
            let error = dump.expect_err("ENOENT");
            assert_eq!(error.errno(), Some(2));
            assert!(error.to_string().starts_with("reading the elements of \"absent\" in table \"test\": "));
        })
    })
}
