//! Things no apiserver should send.

use cluster::apiserver::Encoding;

use super::BOTH;
use super::log;
use super::server::{Answer, End, Wish};
use super::source::follow;
use super::spell::{content_type, event, list, service, stream};

/// By its name; the last usable version stays, the others go on.
#[test]
fn an_object_that_cannot_be_used_is_passed_over() {
    for encoding in BOTH {
        let (bad, worse) = (format!("bad-{encoding:?}"), format!("worse-{encoding:?}"));
        let objects =
            [service(&worse, "300.1.2.3", 2), service(&bad, "10.0.0.1", 3), service("b", "10.0.0.2", 4)];
        let events = [
            event(encoding, "MODIFIED", &service(&bad, "10.0.0.one", 11)),
            event(encoding, "MODIFIED", &service("b", "10.0.0.9", 12)),
        ];
        let again = [service(&bad, "10.0.0.one", 11), service("b", "10.0.0.8", 13)];
        let source = follow(
            encoding,
            vec![
                Answer::ok(encoding, [stream(encoding, 10, &objects), events.concat()].concat(), End::Cut),
                Answer::refusal(410, "Expired"),
                Answer::ok(encoding, stream(encoding, 20, &again), End::Silence),
            ],
        );
        source.await_services(&format!("b=10.0.0.9 {bad}=10.0.0.1"));
        let seen = source.await_services(&format!("b=10.0.0.8 {bad}=10.0.0.1"));
        assert_eq!(seen.count("delete"), 0, "{:?}", seen.updates);
        for (name, value) in [(&bad, "10.0.0.one"), (&worse, "300.1.2.3")] {
            let said =
                log::complaints(&[&format!("default/{name}"), value, "keeping its last usable version"]);
            assert!(!said.is_empty(), "no word about {name}");
        }
        assert_eq!(source.wishes()[1].1, "12", "{encoding:?}: the watch went on behind the bad object");
    }
}

#[test]
fn an_event_of_an_unknown_type_is_passed_over() {
    for encoding in BOTH {
        let events = [
            event(encoding, "RENAMED", &service("a", "10.0.0.7", 11)),
            event(encoding, "MODIFIED", &service("a", "10.0.0.9", 12)),
        ];
        let body = [stream(encoding, 10, &[service("a", "10.0.0.1", 3)]), events.concat()].concat();
        let source = follow(encoding, vec![Answer::ok(encoding, body, End::Silence)]);
        source.await_services("a=10.0.0.9");
        assert_eq!(source.wishes().len(), 1);
    }
}

/// The agent neither waits for four gigabytes nor allocates them.
#[test]
fn an_event_that_claims_to_be_gigantic_ends_the_watch() {
    let encoding = Encoding::Protobuf;
    let objects = [service("a", "10.0.0.1", 3)];
    let body = [stream(encoding, 10, &objects), vec![0xff, 0xff, 0xff, 0xff, 0]].concat();
    let source = follow(
        encoding,
        vec![
            Answer::ok(encoding, body, End::Silence),
            Answer::ok(encoding, event(encoding, "MODIFIED", &service("a", "10.0.0.9", 12)), End::Silence),
        ],
    );
    source.await_services("a=10.0.0.9");
    assert_eq!(source.wishes()[1], (Wish::Watch, "10".to_owned()));
    let said =
        log::complaints(&[&source.server.address.to_string(), "an event of 4294967295 bytes is announced"]);
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn an_item_that_claims_to_be_gigantic_ends_the_list() {
    let encoding = Encoding::Protobuf;
    // Envelope: a list of 2^50 bytes, whose first item has 2^40.
    let list_of = [&b"k8s\0\x12"[..], &varint(1 << 50), b"\x12", &varint(1 << 40)].concat();
    let type_meta = [&b"k8s\0\x0a"[..], &varint(1 << 40)].concat();
    for body in [list_of, type_meta] {
        let source = follow(
            encoding,
            vec![
                Answer::refusal(422, "Invalid"),
                Answer::typed(content_type(encoding), [body, vec![0; 64]].concat(), End::Silence),
                Answer::ok(encoding, list(encoding, 10, "", &[service("a", "10.0.0.1", 3)]), End::Proper),
            ],
        );
        source.await_services("a=10.0.0.1");
    }
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}
