//! Hints are for zones, and the node's zone is a label.

use conformance_support::site::{Caller, Expect};
use model::Family;
use serde_json::json;

use crate::cluster::{Cluster, SECOND_ZONE, zoned};

pub(crate) fn changed(cluster: &Cluster) {
    let spot = cluster.spot("wandering");
    let _agent = spot.agent(&[]);
    let expect = |expected| {
        Family::BOTH
            .into_iter()
            .for_each(|family| spot.expect(Caller::Pod("guest"), zoned(family), expected));
    };
    let label = |zone: Option<&str>| {
        spot.patch(json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}}));
    };
    expect(Expect::By(&["a"]));
    label(Some(SECOND_ZONE));
    expect(Expect::By(&["c"]));
    // No endpoint has these hints, so all are used.
    label(Some("zone-3"));
    expect(Expect::By(&["a", "c"]));
    label(Some(SECOND_ZONE));
    expect(Expect::By(&["c"]));
    label(None);
    expect(Expect::By(&["a", "c"]));
}
