//! Events as the API has them.

use std::net::{Ipv4Addr, TcpListener};

use conformance_support::log::Mark;
use conformance_support::site::{Expect, SOON};
use serde_json::{Value, json};
use test_support::{NodeAgent, wait_until};

use crate::account;
use crate::court::{Court, Party};
use crate::lacking::refusal;

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const PROBES: (Ipv4Addr, u16) = (Ipv4Addr::UNSPECIFIED, 10256);
const NOT_SERVED: &str = "FailedToStartProxierHealthcheck";
const METRICS: (Ipv4Addr, u16) = (Ipv4Addr::UNSPECIFIED, 10249);
const CHECK: (Ipv4Addr, u16) = (Ipv4Addr::UNSPECIFIED, 32123);

/// Events about the party's node, for one reason.
pub(crate) fn about(party: &Party<'_>, reason: &str) -> Vec<Value> {
    let mut events = party.court.api().list(EVENTS).unwrap();
    events.retain(|event| event["regarding"]["name"] == *party.name && event["reason"] == reason);
    events
}

/// How often the event says it has happened.
fn count(party: &Party<'_>) -> Option<u64> {
    about(party, NOT_SERVED).first()?.pointer("/series/count")?.as_u64()
}

/// Another process holds the address of the probes, which is retried.
pub(crate) fn written(court: &Court) {
    let party = court.party("telling", 64);
    account::create_like_shipped(court.api(), &party.name);
    let [_, shipped, _] = account::shipped();
    party.permit(&shipped["rules"], ("events", "patch"), true);
    let mut agent = party.agent(&party.name);
    assert!(wait_until(SOON, || about(&party, "Starting").len() == 1), "{}", agent.log());
    let starting = about(&party, "Starting").remove(0);
    let expected = [
        ("/type", "Normal"),
        ("/regarding/kind", "Node"),
        ("/reportingController", "kube-proxy"),
        ("/action", "StartKubeProxy"),
    ];
    for (field, value) in expected {
        assert_eq!(starting.pointer(field).and_then(Value::as_str), Some(value), "{starting:#}");
    }
    agent.stop().unwrap();

    let others = [PROBES, METRICS, CHECK].map(|at| party.site.node().run(|| TcpListener::bind(at)).unwrap());
    let checked = create_checked(&party);
    agent.launch().unwrap();
    assert!(
        wait_until(SOON, || count(&party) >= Some(2)),
        "{:#?}\n{}",
        about(&party, NOT_SERVED),
        agent.log()
    );
    assert_eq!(about(&party, NOT_SERVED).len(), 1, "one story, one event");
    assert_eq!(about(&party, "Starting").len(), 2, "each start is a new one");
    assert!(wait_until(SOON, || about(&party, "FailedToStartMetricServer").len() == 1), "{}", agent.log());
    let mut told = Vec::new();
    let is_told = wait_until(SOON, || {
        told = court.api().list(EVENTS).unwrap();
        told.retain(|event| event["reason"] == "FailedToStartServiceHealthcheck");
        !told.is_empty()
    });
    assert!(is_told, "{}", agent.log());
    let [kind, name, action] =
        ["/regarding/kind", "/regarding/name", "/action"].map(|field| told[0].pointer(field).unwrap());
    assert_eq!((kind, name, action), (&json!("Service"), &json!(checked), &json!("Listen")));
    drop(others);
    agent.await_ready().unwrap();
    party.expect_first(Expect::By(&["a"]));
    court.api().delete(&format!("{SERVICES}/{checked}")).unwrap();
}

/// A service that load balancers are to ask this node about; its name.
fn create_checked(party: &Party<'_>) -> String {
    let name = format!("checked-{}", party.name);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {
            "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": CHECK.1,
            "ports": [{"port": 80}],
        },
    });
    party.court.api().create(SERVICES, &service).unwrap();
    name
}

/// Without the right to create.
pub(crate) fn unwritten(party: &Party<'_>, agent: &mut NodeAgent, give_back: impl Fn()) {
    let before = about(party, "Starting").len();
    let mark = Mark::now(agent);
    agent.launch().unwrap();
    mark.await_line(agent, &["Failed to write an event", &refusal("create", "events")]);
    agent.await_ready().unwrap();
    assert_eq!(about(party, "Starting").len(), before);
    give_back();
    agent.stop().unwrap();
    agent.launch().unwrap();
    let written = wait_until(SOON, || about(party, "Starting").len() == before + 1);
    assert!(written, "{}", agent.log());
}

/// Without the right to patch.
pub(crate) fn uncounted(party: &Party<'_>, agent: &mut NodeAgent) {
    let other = party.site.node().run(|| TcpListener::bind(PROBES)).unwrap();
    let mark = Mark::now(agent);
    agent.launch().unwrap();
    mark.await_line(agent, &["Failed to write an event", &refusal("patch", "events")]);
    assert_eq!(about(party, NOT_SERVED).len(), 1, "{}", agent.log());
    assert_eq!(count(party), None);
    drop(other);
    agent.await_ready().unwrap();
}
