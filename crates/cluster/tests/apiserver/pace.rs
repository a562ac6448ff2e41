//! How often the server is asked.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use cluster::Kind;
use cluster::apiserver::{Encoding, Settings, Timing};

use super::server::{Answer, End, Scripts, Server, Wish};
use super::source::{Source, follow, settings};
use super::spell::{bookmark, error, service, stream};

/// The shortest waits there may be: half of 200 ms, then twice as long each time.
fn least(failures: u32) -> Duration {
    (0..failures).map(|failure| Duration::from_millis(100) * 2u32.pow(failure)).sum()
}

/// Watches that end as soon as they began, with and without news, and lists that are too old at once.
#[test]
fn nothing_that_fails_at_once_becomes_a_hot_loop() {
    let encoding = Encoding::Protobuf;
    let first = Answer::ok(encoding, stream(encoding, 10, &[service("a", "10.0.0.1", 3)]), End::Proper);
    let empty = Answer::ok(encoding, Vec::new(), End::Proper);
    let news = Answer::ok(encoding, bookmark(encoding, 20), End::Proper);
    let cut = Answer::ok(encoding, bookmark(encoding, 20), End::Cut);
    let failing = Answer::ok(encoding, error(encoding, 500, "InternalError"), End::Proper);
    for (name, answer) in [("empty", empty), ("news", news), ("cut", cut), ("failing", failing)] {
        let answers = [vec![first.clone()], vec![answer; 20]].concat();
        let source = follow(encoding, answers);
        let asked = source.await_requests(6);
        let took = asked[5].at - asked[0].at;
        assert!(took >= least(5), "{name}: 6 requests in {took:?}");
        assert!(asked[1..].iter().all(|asked| asked.wish == Wish::Watch), "{name}");
        assert_eq!(source.now().updates, ["apply a", "synced"], "{name}");
    }
}

#[test]
fn a_history_that_is_always_too_short_becomes_no_hot_loop() {
    let encoding = Encoding::Protobuf;
    let whole = stream(encoding, 10, &[service("a", "10.0.0.1", 3)]);
    let expired = [whole, error(encoding, 410, "Expired")].concat();
    let source = follow(encoding, vec![Answer::ok(encoding, expired, End::Proper); 20]);
    let asked = source.await_requests(5);
    let took = asked[4].at - asked[0].at;
    assert!(took >= least(4), "5 lists in {took:?}");
    let seen = source.now();
    assert_eq!((&*seen.services, seen.count("delete")), ("a=10.0.0.1", 0));
}

#[test]
fn the_limit_of_requests_holds() {
    let server =
        Server::start(Scripts::from([(Kind::Service, vec![Answer::refusal(500, "Odd"); 50].into())]));
    let limited = Settings { qps: 4.0, burst: 2, ..settings(server.address, Encoding::Protobuf) };
    let start = Instant::now();
    let source = Source::start(server.clone(), limited, Timing::default());
    // Four kinds, and one of them repeatedly.
    source.await_requests(6);
    let all = server.all();
    assert!(all.len() >= 9, "{all:?}");
    for (number, asked) in all.iter().enumerate().skip(2) {
        let least = Duration::from_millis(250) * u32::try_from(number - 1).unwrap();
        let since = asked.at - start;
        assert!(since >= least, "request {number} after {since:?}");
    }
}

/// Nodes that started together must not renew their watches together.
#[test]
fn watches_live_differently_long() {
    let seconds: Vec<u32> = (0..3)
        .flat_map(|_| {
            let server = Server::start(Scripts::new());
            let source =
                Source::start(server.clone(), settings(server.address, Encoding::Json), Timing::default());
            source.await_that("all kinds", |seen| seen.state.is_complete());
            server.all()
        })
        .map(|asked| asked.parameter("timeoutSeconds").parse().unwrap())
        .collect();
    assert!(seconds.iter().all(|seconds| (300..=600).contains(seconds)), "{seconds:?}");
    let different: HashSet<&u32> = seconds.iter().collect();
    assert!(different.len() > seconds.len() / 2, "{seconds:?}");
}
