//! Servers that say no, that are not there, or that are something else than a server.

use std::time::Duration;

use cluster::Kind;
use cluster::apiserver::{Encoding, Timing};

use super::BOTH;
use super::log;
use super::server::{Answer, End, Scripts, Server, Wish};
use super::source::{Seen, Source, follow, settings};
use super::spell::{event, list, service, service_cidr, stream};

#[test]
fn a_server_that_is_not_there_yet_is_waited_for() {
    let encoding = Encoding::Protobuf;
    // A port that was free a moment ago.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let early = Server::start(Scripts::new());
    let source = Source::start(early, settings(address, encoding), Timing::default());
    await_complaint(&[&address.to_string(), "cannot be reached", "refused"]);
    let body = stream(encoding, 10, &[service("a", "10.0.0.1", 3)]);
    let script = vec![Answer::ok(encoding, body, End::Silence)];
    Server::start_at(address, Scripts::from([(Kind::Service, script.into())]));
    source.await_services("a=10.0.0.1");
    let said = log::complaints(&[&address.to_string()]);
    assert_eq!(said.len(), 1, "one line for all kinds: {said:?}");
}

#[test]
fn a_server_that_is_busy_says_when_to_come_back() {
    let encoding = Encoding::Protobuf;
    let source = follow(
        encoding,
        vec![
            Answer::refusal(429, "TooManyRequests").header("retry-after", "2"),
            Answer::ok(encoding, stream(encoding, 10, &[service("a", "10.0.0.1", 3)]), End::Silence),
        ],
    );
    source.await_services("a=10.0.0.1");
    let asked = source.await_requests(2);
    let waited = asked[1].at - asked[0].at;
    assert!(waited >= Duration::from_secs(2), "asked again after {waited:?}");
    assert_eq!(asked[1].wish, Wish::Stream, "busy is no refusal of streams");
}

#[test]
fn errors_of_the_server_are_outlived() {
    let encoding = Encoding::Protobuf;
    let objects = [service("a", "10.0.0.1", 3)];
    let source = follow(
        encoding,
        vec![
            Answer::refusal(500, "InternalError"),
            Answer::refusal(503, "ServiceUnavailable"),
            Answer::refusal(504, "Timeout"),
            Answer::ok(encoding, list(encoding, 10, "", &objects), End::Proper),
            Answer::refusal(500, "InternalError"),
            Answer::refusal(504, "Timeout"),
            Answer::ok(encoding, event(encoding, "MODIFIED", &service("a", "10.0.0.2", 12)), End::Silence),
        ],
    );
    let seen = source.await_services("a=10.0.0.2");
    assert_eq!(seen.updates, ["apply a", "synced", "apply a"]);
    let asked = source.await_requests(7);
    assert!(asked[4..].iter().all(|asked| asked.parameter("resourceVersion") == "10"), "{asked:?}");
    assert!(asked[2].at - asked[1].at >= Duration::from_millis(100), "errors are not answered by hurry");
    let said =
        log::complaints(&[&source.server.address.to_string(), "it answered 500: this is InternalError"]);
    assert_eq!(said.len(), 1, "{said:?}");
}

/// An error of the server once is no reason to do without streams for ever.
#[test]
fn streams_are_asked_for_again_unless_they_were_refused() {
    let encoding = Encoding::Protobuf;
    let objects = [service("a", "10.0.0.1", 3)];
    for (refusal, then) in [(500, Wish::Stream), (400, Wish::Page), (422, Wish::Page)] {
        let source = follow(
            encoding,
            vec![
                Answer::refusal(refusal, "Whatever"),
                Answer::ok(encoding, list(encoding, 10, "", &objects), End::Proper),
                Answer::refusal(410, "Expired"),
            ],
        );
        let asked = source.await_requests(4);
        let wishes: Vec<Wish> = asked.iter().map(|asked| asked.wish).collect();
        assert_eq!(wishes, [Wish::Stream, Wish::Page, Wish::Watch, then], "after {refusal}");
        assert_eq!(source.now().services, "a=10.0.0.1");
    }
}

/// Answers of what stands between us and the server, after everything was well.
#[test]
fn what_is_no_apiserver_takes_nothing_away() {
    let html = "<html><body>Back soon</body></html>";
    let page = |status: u16, kind: &str, body: &str| {
        let answer = Answer::typed(kind, body.as_bytes().to_vec(), End::Proper);
        if status == 200 { answer } else { Answer::refusal(status, "Odd") }
    };
    let odd = [
        ("a page for people", page(200, "text/html", html)),
        ("an empty object", page(200, "application/json", "{}")),
        (
            "an error that calls itself success",
            page(200, "application/json", r#"{"error":"no backend","items":[]}"#),
        ),
        ("nothing at all", page(200, "application/json", "")),
        ("nothing as protobuf", page(200, "application/vnd.kubernetes.protobuf", "k8s\0")),
        ("an empty list as protobuf", page(200, "application/vnd.kubernetes.protobuf", "k8s\0\x12\0")),
        ("not found", page(404, "", "")),
    ];
    std::thread::scope(|scope| {
        for encoding in BOTH {
            for (name, answer) in &odd {
                scope.spawn(move || assert_takes_nothing_away(encoding, name, answer));
            }
        }
    });
}

/// It comes instead of a watch, and instead of a list. Only a true list takes something away.
fn assert_takes_nothing_away(encoding: Encoding, name: &str, answer: &Answer) {
    let objects = [service("a", "10.0.0.1", 3), service("b", "10.0.0.2", 4)];
    let source = follow(
        encoding,
        vec![
            Answer::ok(encoding, stream(encoding, 10, &objects), End::Cut),
            answer.clone(),
            Answer::refusal(410, "Expired"),
            answer.clone(),
            answer.clone(),
            Answer::refusal(422, "Invalid"),
            Answer::ok(encoding, list(encoding, 20, "", &objects[..1]), End::Proper),
            Answer::ok(encoding, list(encoding, 20, "", &objects[..1]), End::Proper),
        ],
    );
    let seen = source.await_that(name, |seen| seen.services() != "a=10.0.0.1 b=10.0.0.2" && seen.is_synced());
    assert_eq!(seen.services, "a=10.0.0.1", "{encoding:?} {name}");
    let asked = source.server.asked(Kind::Service).len();
    assert!(asked >= 7, "{encoding:?} {name}: gone after {asked} requests");
}

/// A server that is older than ServiceCIDRs, and then is not.
#[test]
fn a_server_without_a_kind_is_gone_on_with() {
    let json = Encoding::Json;
    let cidrs = stream(json, 30, &[service_cidr("more", "10.99.0.0/16", 20)]);
    let scripts = Scripts::from([(
        Kind::ServiceCidr,
        vec![
            Answer::refusal(404, "NotFound"),
            Answer::refusal(404, "NotFound"),
            Answer::ok(json, cidrs, End::Silence),
        ]
        .into(),
    )]);
    let server = Server::start(scripts);
    let timing = Timing { absent_kind: Duration::from_millis(300), ..Timing::default() };
    let source = Source::start(server.clone(), settings(server.address, Encoding::Protobuf), timing);
    source.await_that("all kinds", |seen| seen.state.is_complete());
    source.await_that("the CIDR", |seen| seen.state.service_cidrs().len() == 1);
    let said = log::complaints(&[&server.address.to_string()]);
    assert!(said.is_empty(), "{said:?}");
}

/// Roles of old releases do not name the kind. It must not keep an outage of the others from its end.
#[test]
fn an_outage_ends_without_a_kind_that_is_forbidden() {
    let encoding = Encoding::Protobuf;
    let services = Answer::ok(encoding, list(encoding, 10, "", &[service("a", "10.0.0.1", 3)]), End::Proper);
    let changed = event(encoding, "MODIFIED", &service("a", "10.0.0.2", 12));
    let unwell = Answer::refusal(500, "InternalError");
    let forbidden = std::iter::repeat_n(Answer::refusal(403, "Forbidden"), 50);
    let scripts = Scripts::from([
        (Kind::Service, vec![unwell.clone(), services, Answer::ok(encoding, changed, End::Silence)].into()),
        (Kind::ServiceCidr, std::iter::once(unwell).chain(forbidden).collect()),
    ]);
    let server = Server::start(scripts);
    let source = Source::start(server.clone(), settings(server.address, encoding), Timing::default());
    source.await_services("a=10.0.0.2");
    let address = server.address.to_string();
    let is_over = || !log::lines(&[&address, "Watching the apiserver again"]).is_empty();
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while !is_over() {
        assert!(
            std::time::Instant::now() < deadline,
            "the outage never ends: {:#?}",
            log::lines(&[&address])
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The services themselves are in every server: without them nothing may be programmed.
#[test]
fn a_server_without_services_is_waited_for() {
    let encoding = Encoding::Protobuf;
    let source = follow(
        encoding,
        vec![
            Answer::refusal(404, "NotFound"),
            Answer::refusal(404, "NotFound"),
            Answer::ok(encoding, stream(encoding, 10, &[service("a", "10.0.0.1", 3)]), End::Silence),
        ],
    );
    let seen = source.await_that("the list", Seen::is_synced);
    assert_eq!(seen.updates, ["apply a", "synced"], "not called whole before it was");
}

/// What a server says before it is ready is over before anybody could mend it.
#[test]
fn another_trouble_within_an_outage_is_told_only_if_it_lasts() {
    let encoding = Encoding::Protobuf;
    let first = Answer::ok(encoding, stream(encoding, 10, &[service("a", "10.0.0.1", 3)]), End::Cut);
    let changed = event(encoding, "MODIFIED", &service("a", "10.0.0.2", 12));
    let passing =
        vec![first.clone(), Answer::refusal(403, "Forbidden"), Answer::ok(encoding, changed, End::Silence)];
    let source = follow(encoding, passing);
    source.await_services("a=10.0.0.2");
    let said = log::complaints(&[&source.server.address.to_string()]);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("the connection was cut"), "{said:?}");

    let lasting = follow(encoding, [vec![first], vec![Answer::refusal(403, "Forbidden"); 9]].concat());
    await_complaint(&[&lasting.server.address.to_string(), "not permitted (403)"]);
    let refusals = lasting.server.asked(Kind::Service).len() - 1;
    assert!(refusals > 2, "told after {refusals}");
}

fn await_complaint(words: &[&str]) {
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while log::complaints(words).is_empty() {
        assert!(std::time::Instant::now() < deadline, "no word about {words:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
