//! Servers that say nothing, or never what is waited for.

use std::time::Duration;

use cluster::apiserver::{Encoding, Timing};

use super::BOTH;
use super::log;
use super::server::{Answer, End, Wish};
use super::source::{Seen, follow_in_time};
use super::spell::{added, bookmark, event, list, service, stream};

/// Long against what the test's own server takes, short against the patience of a test.
fn impatient() -> Timing {
    let short = Duration::from_millis(700);
    Timing {
        list_silence: short,
        watch_silence: short,
        shortest_watch: Duration::from_millis(100),
        ..Timing::default()
    }
}

/// Also what a server without bookmarks looks like in a quiet cluster, hence no reason to complain.
#[test]
fn a_silent_watch_is_restarted_where_it_was() {
    for encoding in BOTH {
        let body = stream(encoding, 10, &[service("a", "10.0.0.1", 3)]);
        let later = event(encoding, "MODIFIED", &service("a", "10.0.0.2", 20));
        let source = follow_in_time(
            encoding,
            impatient(),
            vec![
                Answer::ok(encoding, body, End::Silence),
                Answer::ok(encoding, Vec::new(), End::Silence),
                Answer::ok(encoding, later, End::Silence),
            ],
        );
        let seen = source.await_services("a=10.0.0.2");
        assert_eq!(seen.updates, ["apply a", "synced", "apply a"]);
        let asked = source.await_requests(3);
        assert_eq!(asked[1].wish, Wish::Watch);
        assert_eq!(
            (asked[1].parameter("resourceVersion"), asked[2].parameter("resourceVersion")),
            ("10", "10")
        );
        assert!(asked[2].at - asked[1].at >= impatient().watch_silence, "it was left too soon");
        let said = log::complaints(&[&source.server.address.to_string()]);
        assert!(said.is_empty(), "{said:?}");
    }
}

#[test]
fn a_stream_whose_mark_never_comes_is_replaced_by_pages() {
    let encoding = Encoding::Protobuf;
    let objects = [service("a", "10.0.0.1", 3)];
    let silent = Answer::ok(encoding, added(encoding, &objects), End::Silence);
    // Something comes all the time, but never an object that was there before.
    let busy = Answer::ok(encoding, added(encoding, &objects), End::Repeat)
        .in_chunks(vec![added(encoding, &objects), bookmark(encoding, 12)]);
    let short = Answer::ok(encoding, added(encoding, &objects), End::Proper);
    for (name, answer) in [("silent", silent), ("busy", busy), ("short", short)] {
        let source = follow_in_time(
            encoding,
            impatient(),
            vec![answer, Answer::ok(encoding, list(encoding, 20, "", &objects), End::Proper)],
        );
        let seen = source.await_that(name, Seen::is_synced);
        assert_eq!(seen.services, "a=10.0.0.1", "{name}");
        let wishes: Vec<Wish> = source.wishes().into_iter().map(|(wish, _)| wish).collect();
        assert_eq!(wishes[..2], [Wish::Stream, Wish::Page], "{name}");
    }
}

#[test]
fn a_server_that_takes_the_connection_and_says_nothing_is_asked_again() {
    let encoding = Encoding::Protobuf;
    let objects = [service("a", "10.0.0.1", 3)];
    let source = follow_in_time(
        encoding,
        Timing { answer: Duration::from_millis(700), ..impatient() },
        vec![
            Answer::none(),
            Answer::none(),
            Answer::ok(encoding, list(encoding, 20, "", &objects), End::Proper),
        ],
    );
    source.await_services("a=10.0.0.1");
    let server = source.server.address.to_string();
    let said = log::complaints(&[&server, "nothing was received for", "keeping the current rules"]);
    assert_eq!(said.len(), 1, "{said:?}");
}

/// The silence is in the middle of an object.
#[test]
fn a_list_that_falls_silent_is_asked_for_again() {
    for encoding in BOTH {
        let page = list(encoding, 20, "", &[service("a", "10.0.0.1", 3)]);
        let source = follow_in_time(
            encoding,
            impatient(),
            vec![
                Answer::refusal(422, "Invalid"),
                Answer::ok(encoding, page[..page.len() / 2].to_vec(), End::Silence),
                Answer::ok(encoding, page, End::Proper),
            ],
        );
        source.await_services("a=10.0.0.1");
    }
}
