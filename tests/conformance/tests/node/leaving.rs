//! Nodes about to go, and gone: load balancers learn to send elsewhere, and what still comes is served.

use conformance_support::Traffic;
use conformance_support::log::Mark;
use conformance_support::site::SOON;
use model::Family;
use sandbox::probe::{Hold, Pulse};
use serde_json::json;
use test_support::{ANSWER, NodeAgent, patient, wait_until};

use crate::cluster::{Cluster, Spot, remote};

const TAINT: &str = "ToBeDeletedByClusterAutoscaler";

fn expect_health(spot: &Spot<'_>, agent: &NodeAgent, health: u16) {
    let mut last = None;
    let came = wait_until(SOON, || {
        last = agent.probe("/healthz");
        last == Some(health)
    });
    assert!(came, "/healthz says {last:?}, not {health}\n{}", agent.log());
    assert_eq!(agent.probe("/livez"), Some(200));
    spot.expect_programmed();
}

pub(crate) fn tainted(cluster: &Cluster) {
    let spot = cluster.spot("tainted");
    let agent = spot.agent(&[]);
    expect_health(&spot, &agent, 200);
    spot.patch(json!({"spec": {"taints": [{"key": "other", "effect": "NoSchedule"}]}}));
    expect_health(&spot, &agent, 200);
    spot.patch(json!({"spec": {"taints": [{"key": TAINT, "value": "1", "effect": "NoSchedule"}]}}));
    expect_health(&spot, &agent, 503);
    spot.patch(json!({"spec": {"taints": null}}));
    expect_health(&spot, &agent, 200);
}

/// A finalizer keeps the object while it is being deleted.
pub(crate) fn deleting(cluster: &Cluster) {
    let spot = cluster.bare_spot("deleting");
    let mut node = spot.object();
    node["metadata"]["finalizers"] = json!(["test.example.org/hold"]);
    spot.register(&node);
    let agent = spot.agent(&[]);
    expect_health(&spot, &agent, 200);
    spot.unregister();
    expect_health(&spot, &agent, 503);
    let mark = Mark::now(&agent);
    spot.patch(json!({"metadata": {"finalizers": null}}));
    mark.await_line(&agent, &["Node object is gone"]);
    expect_health(&spot, &agent, 503);
    spot.register(&spot.object());
    expect_health(&spot, &agent, 200);
}

pub(crate) fn registered_again(cluster: &Cluster) {
    let spot = cluster.spot("phoenix");
    let agent = spot.agent(&[]);
    let guest = &spot.site.ground.sandbox.pod("guest").unwrap().namespace;
    let mut held = Family::BOTH.map(|family| Hold::open(guest, None, remote(family), ANSWER).unwrap());
    let traffic = Traffic::start(guest, Family::BOTH.map(remote));
    let mark = Mark::now(&agent);
    spot.unregister();
    mark.await_line(&agent, &["Node object is gone"]);
    traffic.go_on(20);
    spot.register(&spot.object());
    let healthy = wait_until(SOON, || agent.probe("/healthz") == Some(200));
    assert!(healthy, "{}", agent.log());
    traffic.go_on(20);
    traffic.finish();
    for hold in &mut held {
        let pulse = hold.ping(patient(ANSWER));
        assert!(matches!(pulse, Pulse::Alive(_)), "{pulse:?}");
    }
}
