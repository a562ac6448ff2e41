//! Services of one family and of two.

use std::net::{IpAddr, SocketAddr};

use conformance_support::site::Expect;
use model::Family;
use serde_json::{Value, json};
use test_support::world::Range;

use super::stage::{At, Stage};

pub(crate) fn upgraded(stage: &Stage) {
    let web = stage.web("families", 33);
    let [v4, _] = web.ips(Range::Cluster);
    web.create_as(&web.manifest_at(&[v4])).serve_by(&["a"]);
    web.expect_in(Family::V4, At::Cluster, Expect::By(&["a"]));

    let changed = web.patch_spec(json!({"ipFamilyPolicy": "PreferDualStack"}));
    let second = changed.pointer("/spec/clusterIPs/1").and_then(Value::as_str).expect("a second cluster IP");
    let second: IpAddr = second.parse().unwrap();
    let to = SocketAddr::new(second, 80);
    web.expect_at(to, At::Cluster.caller(), Expect::By(&["a"]));
    web.expect_in(Family::V4, At::Cluster, Expect::By(&["a"]));

    web.patch_spec(json!({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"], "clusterIPs": [v4]}));
    web.expect_at(to, At::Cluster.caller(), Expect::Silence);
    web.expect_in(Family::V4, At::Cluster, Expect::By(&["a"]));
}
