//! What the source tells an observer about itself.

use cluster::apiserver::{Encoding, Phase};

use super::server::{Answer, End};
use super::source::follow;
use super::spell::{event, list, service};

#[test]
fn an_observer_hears_of_lists_watches_failures_and_requests() {
    let encoding = Encoding::Protobuf;
    let source = follow(
        encoding,
        vec![
            Answer::refusal(500, "InternalError"),
            Answer::ok(encoding, list(encoding, 10, "", &[service("a", "10.0.0.1", 3)]), End::Proper),
            Answer::ok(encoding, event(encoding, "ADDED", &service("b", "10.0.0.2", 11)), End::Silence),
        ],
    );
    source.await_services("a=10.0.0.1 b=10.0.0.2");
    let heard = source.observed.heard();
    use Phase::{Failed, Listing, Watching};
    assert_eq!(heard.phases, [Listing, Failed, Listing, Watching]);
    assert!(heard.codes.contains(&Some(500)) && heard.codes.contains(&Some(200)), "{:?}", heard.codes);
    assert!(heard.chunks >= 2);
    assert_eq!(heard.host, source.server.address.to_string());
}
