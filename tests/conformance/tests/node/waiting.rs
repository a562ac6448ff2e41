//! What the agent has to know of its node before it writes the first rule.

use conformance_support::site::{Caller, Expect};
use model::Family;
use sandbox::address;
use serde_json::{Value, json};
use test_support::directory::{address_of, node_addresses};

use crate::cluster::{Cluster, Spot, remote, remote_at};

const WAITING: &str = "Nothing is programmed yet: waiting for ";

pub(crate) fn for_node(cluster: &Cluster) {
    let spot = cluster.spot("late");
    let mut agent = spot.agent(&[]);
    agent.stop().unwrap();
    assert!(!agent.log().contains(WAITING), "{}", agent.log());
    spot.unregister();
    let mark = spot.launch_afresh(&mut agent);
    mark.await_line(&agent, &[&format!("{WAITING}the Node object of this node")]);
    spot.expect_nothing_programmed(&agent);
    spot.register(&spot.object());
    agent.await_ready().unwrap();
    spot.expect_programmed();
    spot.expect(Caller::Outside(None), remote_at(address::NODE_V4), Expect::By(&["c"]));
}

/// A Node object that comes after all is followed as if it had been there.
pub(crate) fn in_vain(cluster: &Cluster) {
    let spot = cluster.spot("never");
    let mut agent = spot.agent(&[]);
    agent.stop().unwrap();
    spot.unregister();
    let mark = spot.launch_afresh(&mut agent);
    mark.await_line(&agent, &[&format!("{WAITING}the Node object of this node")]);
    spot.expect_nothing_programmed(&agent);
    mark.await_line(&agent, &["using the kernel's addresses"]);
    agent.await_ready().unwrap();
    spot.expect_programmed();
    let mut late = spot.object();
    late["status"]["addresses"] = json!([{"type": "InternalIP", "address": address::NODE_OUTER_V4}]);
    spot.register(&late);
    spot.expect(Caller::Outside(None), remote_at(address::NODE_OUTER_V4), Expect::By(&["c"]));
}

pub(crate) fn for_addresses(cluster: &Cluster) {
    let spot = cluster.spot("homeless");
    let mut agent = spot.agent(&[]);
    agent.stop().unwrap();
    spot.unregister();
    let mut homeless = spot.object();
    homeless["status"] = json!({});
    spot.register(&homeless);
    let mark = spot.launch_afresh(&mut agent);
    mark.await_line(&agent, &[&format!("{WAITING}the addresses of this node")]);
    spot.expect_nothing_programmed(&agent);
    spot.set_addresses(&[address::NODE_V4.into(), address::NODE_V6.into()]);
    agent.await_ready().unwrap();
    spot.expect_programmed();
    spot.expect(Caller::Outside(None), remote_at(address::NODE_V6), Expect::By(&["c"]));
}

/// The API lets pod CIDRs be set once; others come with a new Node object.
pub(crate) fn for_pod_cidrs(cluster: &Cluster) {
    let spot = cluster.bare_spot("ranged");
    let own = json!([address::LOCAL_PODS_V4.to_string(), address::LOCAL_PODS_V6.to_string()]);
    spot.register(&with_pod_cidrs(&spot, &own));
    let mut agent = spot.agent(&["--detect-local-mode=NodeCIDR"]);
    expect_pods_known(&spot, true);
    agent.stop().unwrap();

    spot.unregister();
    spot.register(&spot.object());
    let mark = spot.launch_afresh(&mut agent);
    mark.await_line(&agent, &[&format!("{WAITING}the pod CIDRs of this node")]);
    spot.expect_nothing_programmed(&agent);
    spot.patch(json!({"spec": {"podCIDR": own[0], "podCIDRs": own}}));
    agent.await_ready().unwrap();
    expect_pods_known(&spot, true);

    spot.unregister();
    spot.register(&with_pod_cidrs(&spot, &json!(["10.244.9.0/24", "fd00:244:9::/64"])));
    expect_pods_known(&spot, false);
    spot.unregister();
    spot.register(&with_pod_cidrs(&spot, &own));
    expect_pods_known(&spot, true);
}

fn with_pod_cidrs(spot: &Spot<'_>, cidrs: &Value) -> Value {
    let mut node = spot.object();
    node["spec"] = json!({"podCIDR": cidrs[0], "podCIDRs": cidrs});
    node
}

/// A client that counts as a pod of this node keeps its address; all others are masqueraded.
fn expect_pods_known(spot: &Spot<'_>, known: bool) {
    let nodes = node_addresses();
    for family in Family::BOTH {
        let guest = address_of("guest", family);
        let seen = |ip| if known { ip == guest } else { nodes.contains(&ip) };
        spot.site.expect_seen_as(Caller::Pod("guest"), remote(family), seen);
        spot.site.expect_seen_as(Caller::Outside(None), remote(family), |ip| nodes.contains(&ip));
    }
}
