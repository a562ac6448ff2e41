//! Services that go and come, alone, with their slices, or under other names.

use std::net::{IpAddr, SocketAddr};

use conformance_support::paths;
use conformance_support::site::Expect;
use model::Family;
use serde_json::{Value, json};
use test_support::directory::MAIN_PORT;
use test_support::world::Range;

use super::stage::{At, Stage};

pub(crate) fn moved(stage: &Stage) {
    let web = stage.web("moved", 26).create().serve_by(&["a"]);
    let new = stage.web("moved", 27);
    web.expect(At::Cluster, Expect::By(&["a"]));
    web.delete();
    new.create();
    new.expect(At::Cluster, Expect::By(&["a"]));
    web.expect(At::Cluster, Expect::Silence);
}

/// A recreation is reported as one deletion and one creation, or, if the watch missed both, as a change.
pub(crate) fn replaced(stage: &Stage) {
    let web = stage.web("replaced", 28).create().serve_by(&["a"]);
    web.expect(At::Cluster, Expect::By(&["a"]));
    web.delete();
    web.delete_slices("1");
    web.create().serve_by(&["b"]);
    web.expect(At::Cluster, Expect::By(&["b"]));
}

pub(crate) fn inherited(stage: &Stage) {
    let (first, second) = (stage.web("testator", 29), stage.web("heir", 29));
    first.create().serve_by(&["a"]);
    second.serve_by(&["b"]);
    first.expect(At::Cluster, Expect::By(&["a"]));
    first.delete();
    second.create();
    second.expect(At::Cluster, Expect::By(&["b"]));
}

/// Slices of any name and maker belong to the service that their label names.
pub(crate) fn by_hand(stage: &Stage) {
    let web = stage.web("by-hand", 30).create();
    web.expect(At::Cluster, Expect::Refused);
    let slice = |name: &str, family: Family, address: IpAddr| {
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": format!("somebody-{name}-{}", family.to_string().to_lowercase()),
                "namespace": "default",
                "labels": {
                    "kubernetes.io/service-name": "by-hand",
                    "endpointslice.kubernetes.io/managed-by": "somebody",
                },
            },
            "addressType": family.to_string(),
            // Without node names and conditions, as people write them.
            "endpoints": [{"addresses": [address]}],
            "ports": [
                {"name": "tcp", "protocol": "TCP", "port": MAIN_PORT},
                {"name": "udp", "protocol": "UDP", "port": MAIN_PORT},
            ],
        })
    };
    let slices = |pod: &str| {
        Family::BOTH.map(|family| slice(pod, family, test_support::directory::address_of(pod, family)))
    };
    let create = |slice: &Value| drop(stage.api().create(paths::SLICES, slice).unwrap());
    slices("a").iter().for_each(create);
    web.expect(At::Cluster, Expect::By(&["a"]));
    slices("remote").iter().for_each(create);
    web.expect(At::Cluster, Expect::By(&["a", "remote"]));
    slices("a").iter().for_each(|slice| drop(stage.api().delete(&paths::object(slice)).unwrap()));
    web.expect(At::Cluster, Expect::By(&["remote"]));
}

/// What the namespace controller does: delete all that is in it, kind by kind, then let go of it.
pub(crate) fn namespace(stage: &Stage) {
    const NAMESPACES: &str = "/api/v1/namespaces";
    let web = stage.web("inhabitant", 31);
    let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "passing"}});
    stage.api().create(NAMESPACES, &namespace).unwrap();
    let mut service = web.manifest().to_json();
    service["metadata"]["namespace"] = "passing".into();
    stage.api().create(&paths::collection(&service), &service).unwrap();
    web.serve_by(&["a"]);
    // A slice serves only the service of its own namespace.
    web.expect(At::Cluster, Expect::Refused);
    let mut slices = Vec::new();
    for family in Family::BOTH {
        let name = format!("inhabitant-1-{}", family.to_string().to_lowercase());
        let found = stage.api().get(&format!("{}/{name}", paths::SLICES)).unwrap();
        let mut slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice"});
        for part in ["addressType", "endpoints", "ports"] {
            slice[part] = found[part].clone();
        }
        slice["metadata"] =
            json!({"name": name, "namespace": "passing", "labels": found["metadata"]["labels"]});
        stage.api().create(&paths::collection(&slice), &slice).unwrap();
        slices.push(slice);
    }
    web.expect(At::Cluster, Expect::By(&["a"]));

    stage.api().delete(&format!("{NAMESPACES}/passing")).unwrap();
    stage.api().delete(&paths::collection(&slices[0])).unwrap();
    stage.api().delete(&paths::collection(&service)).unwrap();
    namespace["spec"] = json!({"finalizers": []});
    stage.api().update(&format!("{NAMESPACES}/passing/finalize"), &namespace).unwrap();
    web.expect(At::Cluster, Expect::Silence);
}

pub(crate) fn apart(stage: &Stage) {
    let web = stage.web("apart", 32).create().serve_by(&["a"]);
    web.expect(At::Cluster, Expect::By(&["a"]));
    web.delete();
    web.expect(At::Cluster, Expect::Silence);
    web.create();
    web.expect(At::Cluster, Expect::By(&["a"]));
    web.delete_slices("1");
    web.expect(At::Cluster, Expect::Refused);
    let [v4, _] = web.ips(Range::Cluster);
    web.expect_at(SocketAddr::new(v4, 81), At::Cluster.caller(), Expect::Refused);
    web.serve_by(&["b"]);
    web.expect(At::Cluster, Expect::By(&["b"]));
}
