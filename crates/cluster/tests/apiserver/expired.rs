//! Versions that are no longer in the server's history (410).

use cluster::apiserver::Encoding;

use super::BOTH;
use super::server::{Answer, End, Wish};
use super::source::{Source, follow};
use super::spell::{error, event, list, service, stream};

fn wishes(source: &Source) -> Vec<Wish> {
    source.wishes().into_iter().map(|(wish, _)| wish).collect()
}

/// One object stays, one goes, one comes; the one that stays is never taken away in between.
fn assert_relisted(source: &Source) {
    let wanted = "new=10.0.0.3 stays=10.0.0.1";
    let seen = source.await_that(wanted, |seen| seen.is_synced() && seen.services() == wanted);
    assert_eq!(seen.count("delete"), 0, "{:?}", seen.updates);
    let retained: Vec<&String> = seen.updates.iter().filter(|update| update.starts_with("retain")).collect();
    assert_eq!(retained, [r#"retain {"default/new", "default/stays"}"#]);
    assert_eq!(seen.count("synced"), 1);
}

fn before(encoding: Encoding) -> Vec<u8> {
    stream(encoding, 10, &[service("stays", "10.0.0.1", 3), service("gone", "10.0.0.2", 4)])
}

fn after() -> [serde_json::Value; 2] {
    [service("stays", "10.0.0.1", 3), service("new", "10.0.0.3", 90)]
}

#[test]
fn a_watch_refused_as_too_old_is_replaced_by_a_new_list() {
    for encoding in BOTH {
        let source = follow(
            encoding,
            vec![
                Answer::ok(encoding, before(encoding), End::Cut),
                Answer::refusal(410, "Expired"),
                Answer::ok(encoding, stream(encoding, 100, &after()), End::Cut),
            ],
        );
        assert_relisted(&source);
        source.await_requests(4);
        assert_eq!(wishes(&source), [Wish::Stream, Wish::Watch, Wish::Stream, Wish::Watch], "{encoding:?}");
        assert_eq!(source.wishes()[3].1, "100");
    }
}

#[test]
fn a_watch_that_expires_in_the_middle_is_replaced_by_a_new_list() {
    for encoding in BOTH {
        let changed = event(encoding, "MODIFIED", &service("stays", "10.0.0.1", 11));
        for (code, reason) in [(410, "Expired"), (410, "Gone"), (0, "Expired")] {
            let end = error(encoding, code, reason);
            let body = [before(encoding), changed.clone(), end].concat();
            let source = follow(
                encoding,
                vec![
                    Answer::ok(encoding, body, End::Proper),
                    Answer::ok(encoding, stream(encoding, 100, &after()), End::Silence),
                ],
            );
            assert_relisted(&source);
            assert_eq!(wishes(&source), [Wish::Stream, Wish::Stream], "{encoding:?} {code} {reason}");
        }
    }
}

/// Where lists come in pages, the new one must not be older than what was seen: not any version will do.
#[test]
fn a_new_list_in_pages_is_not_an_old_one() {
    let encoding = Encoding::Protobuf;
    let objects = [service("stays", "10.0.0.1", 3), service("gone", "10.0.0.2", 4)];
    let source = follow(
        encoding,
        vec![
            Answer::refusal(422, "Invalid"),
            Answer::ok(encoding, list(encoding, 10, "", &objects), End::Proper),
            Answer::refusal(410, "Expired"),
            Answer::ok(encoding, list(encoding, 100, "", &after()), End::Proper),
        ],
    );
    assert_relisted(&source);
    let asked = source.await_requests(5);
    assert_eq!(asked[1].parameter("resourceVersion"), "0", "any version is good enough at the start");
    assert_eq!(asked[3].wish, Wish::Page);
    assert!(!asked[3].query.contains("resourceVersion=0"), "{:?}", asked[3]);
}

/// The rest of a list may expire before it is asked for.
#[test]
fn a_list_whose_rest_expires_is_restarted() {
    for encoding in BOTH {
        let first = [service("gone", "10.0.0.2", 3)];
        let again = [service("stays", "10.0.0.1", 4)];
        let source = follow(
            encoding,
            vec![
                Answer::refusal(422, "Invalid"),
                Answer::ok(encoding, list(encoding, 10, "to&ken=", &first), End::Proper),
                Answer::refusal(410, "Expired"),
                Answer::ok(encoding, list(encoding, 100, "second", &again), End::Proper),
                Answer::ok(encoding, list(encoding, 100, "", &[service("new", "10.0.0.3", 5)]), End::Proper),
            ],
        );
        assert_relisted(&source);
        let asked = source.await_requests(6);
        assert_eq!(asked[2].parameter("continue"), "to%26ken%3D", "{encoding:?}");
        assert_eq!(asked[3].parameter("continue"), "");
        assert_eq!(asked[4].parameter("continue"), "second");
        assert_eq!((asked[5].wish, asked[5].parameter("resourceVersion")), (Wish::Watch, "100"));
    }
}

/// As after a changed kubeconfig: another connection, and the same place where objects go.
#[test]
fn a_source_that_takes_over_removes_what_it_does_not_list() {
    let encoding = Encoding::Json;
    let first = follow(encoding, vec![Answer::ok(encoding, before(encoding), End::Silence)]);
    first.await_services("gone=10.0.0.2 stays=10.0.0.1");
    let second = first.replaced_by(vec![Answer::ok(encoding, stream(encoding, 100, &after()), End::Silence)]);
    let wanted = "new=10.0.0.3 stays=10.0.0.1";
    let seen = second.await_that(wanted, |seen| seen.services() == wanted);
    assert_eq!(seen.count("delete"), 0, "{:?}", seen.updates);
}
