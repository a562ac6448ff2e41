//! Connections that end in the middle, and bytes that come in odd pieces.

use cluster::apiserver::Encoding;

use super::BOTH;
use super::log;
use super::server::{Answer, End, Wish};
use super::source::{Seen, follow};
use super::spell::{added, bookmark, event, list, service, stream};

fn wish(wish: Wish, version: &str) -> (Wish, String) {
    (wish, version.to_owned())
}

#[test]
fn a_watch_cut_in_the_middle_of_an_object_goes_on_where_it_was() {
    for encoding in BOTH {
        let first = stream(encoding, 10, &[service("a", "10.0.0.1", 3), service("b", "10.0.0.2", 4)]);
        let changed = event(encoding, "MODIFIED", &service("a", "10.0.0.9", 11));
        let third = event(encoding, "ADDED", &service("c", "10.0.0.3", 12));
        let half = third[..third.len() / 2].to_vec();
        let source = follow(
            encoding,
            vec![
                Answer::ok(encoding, [first, changed, half].concat(), End::Cut),
                Answer::ok(encoding, third, End::Silence),
            ],
        );
        let seen = source.await_services("a=10.0.0.9 b=10.0.0.2 c=10.0.0.3");
        assert_eq!(seen.updates, ["apply a", "apply b", "synced", "apply a", "apply c"], "{encoding:?}");
        assert_eq!(source.wishes(), [wish(Wish::Stream, ""), wish(Wish::Watch, "11")]);
    }
}

#[test]
fn a_watch_that_ends_in_the_middle_of_an_object_is_no_end() {
    for encoding in BOTH {
        let first = stream(encoding, 10, &[]);
        let added = event(encoding, "ADDED", &service("a", "10.0.0.1", 12));
        let half = added[..added.len() - 1].to_vec();
        let source = follow(
            encoding,
            vec![
                Answer::ok(encoding, [first, half].concat(), End::Proper),
                Answer::ok(encoding, added, End::Silence),
            ],
        );
        source.await_services("a=10.0.0.1");
        assert_eq!(source.wishes(), [wish(Wish::Stream, ""), wish(Wish::Watch, "10")], "{encoding:?}");
        let said = log::complaints(&[&source.server.address.to_string(), "the stream ended in the middle"]);
        assert_eq!(said.len(), 1, "{encoding:?}: {said:?}");
    }
}

/// An event for every place where one can be split.
#[test]
fn events_split_at_every_byte_are_read() {
    for encoding in BOTH {
        let length = event(encoding, "MODIFIED", &service("a", "10.0.0.1", 1000)).len();
        let mut chunks = vec![stream(encoding, 10, &[service("a", "10.0.0.1", 3)])];
        for at in 1..length {
            let version = 1000 + u32::try_from(at).unwrap();
            let whole = event(encoding, "MODIFIED", &service("a", "10.0.0.1", version));
            assert_eq!(whole.len(), length);
            chunks.extend([whole[..at].to_vec(), whole[at..].to_vec()]);
        }
        chunks.push(event(encoding, "ADDED", &service("last", "10.0.0.2", 5000)));
        let answer = Answer::ok(encoding, Vec::new(), End::Silence).in_chunks(chunks);
        let source = follow(encoding, vec![answer]);
        let seen = source.await_services("a=10.0.0.1 last=10.0.0.2");
        assert_eq!(seen.count("apply a"), length, "{encoding:?}");
        assert_eq!(source.wishes(), [wish(Wish::Stream, "")], "everything came in one watch");
    }
}

#[test]
fn one_byte_at_a_time_is_enough() {
    for encoding in BOTH {
        let objects = [service("a", "10.0.0.1", 3), service("b", "10.0.0.2", 4)];
        let events = [bookmark(encoding, 11), event(encoding, "DELETED", &service("a", "10.0.0.1", 12))];
        let body = [stream(encoding, 10, &objects), events.concat()].concat();
        let streamed = follow(encoding, vec![Answer::ok(encoding, body, End::Silence).dripped()]);
        streamed.await_services("b=10.0.0.2");
        assert_eq!(streamed.wishes().len(), 1, "{encoding:?}");

        let page = list(encoding, 10, "", &objects);
        let paged = follow(
            encoding,
            vec![
                Answer::refusal(422, "Invalid"),
                Answer::ok(encoding, page, End::Proper).dripped(),
                Answer::ok(encoding, Vec::new(), End::Silence),
            ],
        );
        let seen = paged.await_that("the list", Seen::is_synced);
        assert_eq!(seen.services, "a=10.0.0.1 b=10.0.0.2", "{encoding:?}");
        paged.await_requests(3);
        assert_eq!(paged.wishes()[2], wish(Wish::Watch, "10"));
    }
}

/// What half a first list brought must go if the next one does not have it.
#[test]
fn a_first_list_that_breaks_off_leaves_nothing_behind() {
    for encoding in BOTH {
        let half = added(encoding, &[service("gone", "10.0.0.1", 3), service("stays", "10.0.0.2", 4)]);
        let whole = list(encoding, 10, "", &[service("stays", "10.0.0.2", 4), service("new", "10.0.0.3", 9)]);
        let source = follow(
            encoding,
            vec![
                Answer::ok(encoding, half, End::Cut),
                Answer::ok(encoding, whole, End::Proper),
                Answer::ok(encoding, Vec::new(), End::Silence),
            ],
        );
        let seen = source.await_that("the list", Seen::is_synced);
        assert_eq!(seen.services, "new=10.0.0.3 stays=10.0.0.2", "{encoding:?}: {:?}", seen.updates);
        assert_eq!(
            seen.updates.last().map(String::as_str),
            Some("synced"),
            "nothing partial is called whole"
        );
    }
}

/// A page that ends too early is not taken for a short list.
#[test]
fn a_list_cut_in_the_middle_is_asked_for_again() {
    for encoding in BOTH {
        let objects = [service("a", "10.0.0.1", 3), service("b", "10.0.0.2", 4)];
        let page = list(encoding, 10, "", &objects);
        let half = page[..page.len() * 3 / 4].to_vec();
        for end in [End::Cut, End::Proper] {
            let source = follow(
                encoding,
                vec![
                    Answer::refusal(422, "Invalid"),
                    Answer::ok(encoding, half.clone(), end),
                    Answer::ok(encoding, page.clone(), End::Proper),
                ],
            );
            let seen = source.await_that("the list", Seen::is_synced);
            assert_eq!(seen.services, "a=10.0.0.1 b=10.0.0.2", "{encoding:?}");
            let wishes: Vec<Wish> = source.wishes().into_iter().map(|(wish, _)| wish).collect();
            assert_eq!(wishes[..3], [Wish::Stream, Wish::Page, Wish::Page]);
        }
    }
}

/// Protobuf was asked for, and a server that does not have it for a kind answers in JSON.
#[test]
fn the_answer_says_what_it_is_written_in() {
    let body = stream(Encoding::Json, 10, &[service("a", "10.0.0.1", 3)]);
    let source = follow(Encoding::Protobuf, vec![Answer::ok(Encoding::Json, body, End::Silence)]);
    source.await_services("a=10.0.0.1");
    let asked = source.await_requests(1);
    assert!(asked[0].accept.starts_with("application/vnd.kubernetes.protobuf"), "{asked:?}");
    assert!(asked[0].accept.contains("application/json"), "{asked:?}");
    assert_eq!(source.now().count("delete"), 0);
}
