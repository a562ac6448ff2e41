//! The node's name as people write it.

use conformance_support::site::SOON;
use serde_json::Value;
use test_support::wait_until;

use crate::cluster::Cluster;

pub(crate) fn as_people_write_it(cluster: &Cluster) {
    let spot = cluster.spot("capital-1");
    let agent = spot.agent_called("  Capital-1 ", &[]);
    spot.expect_programmed();
    assert!(!agent.log().contains("waiting for the Node object"), "{}", agent.log());
    let about_node = || {
        let events = cluster.api().list("/apis/events.k8s.io/v1/namespaces/default/events").unwrap();
        let name =
            |event: &Value| event.pointer("/regarding/name").and_then(Value::as_str).map(str::to_owned);
        events.iter().filter_map(name).any(|name| name == "capital-1")
    };
    assert!(wait_until(SOON, about_node), "no event about the node");
}
