//! The type of a service.

use conformance_support::site::Expect;
use model::Family;
use serde_json::json;
use test_support::world::Range;

use super::stage::{At, Stage};

pub(crate) fn in_turn(stage: &Stage) {
    let web = stage.web("types", 20).create().serve_by(&["a"]);
    web.expect(At::Cluster, Expect::By(&["a"]));
    web.expect(At::NodePort, Expect::Refused);

    web.patch_spec(json!({"type": "NodePort", "ports": web.open_ports()}));
    web.expect(At::NodePort, Expect::By(&["a"]));

    web.patch_spec(json!({"type": "LoadBalancer"}));
    web.balance(Some("VIP"));
    web.expect(At::Balancer, Expect::By(&["a"]));
    web.expect(At::NodePort, Expect::By(&["a"]));

    // The API drops node ports and the balancer's addresses with the type.
    let changed = web.patch_spec(json!({"type": "ClusterIP"}));
    assert_eq!(changed.pointer("/spec/ports/0/nodePort"), None, "{changed}");
    web.expect(At::NodePort, Expect::Refused);
    web.expect(At::Balancer, Expect::Silence);
    web.expect(At::Cluster, Expect::By(&["a"]));

    let changed = web.patch_spec(json!({"type": "ExternalName", "externalName": "example.org"}));
    assert_eq!(changed.pointer("/spec/clusterIP"), None, "{changed}");
    web.expect(At::Cluster, Expect::Silence);

    web.patch_spec(json!({
        "type": "ClusterIP",
        "externalName": null,
        "clusterIPs": web.ips(Range::Cluster),
        "clusterIP": web.ips(Range::Cluster)[0],
        "ipFamilyPolicy": "RequireDualStack",
    }));
    web.expect(At::Cluster, Expect::By(&["a"]));
}

pub(crate) fn headless(stage: &Stage) {
    let web = stage.web("headless", 21).create().serve_by(&["a"]);
    web.expect(At::Cluster, Expect::By(&["a"]));
    web.delete();
    let families = json!(Family::BOTH.map(|family| family.to_string()));
    let headless = web.manifest_at(&[]).with("clusterIPs", json!(["None"])).with("ipFamilies", families);
    web.create_as(&headless.with("ipFamilyPolicy", "RequireDualStack"));
    web.expect(At::Cluster, Expect::Silence);
    web.delete();
    web.create();
    web.expect(At::Cluster, Expect::By(&["a"]));
}
