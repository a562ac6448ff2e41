//! Ways in from outside: load balancers and external IPs.

use conformance_support::site::{Caller, Expect};
use model::Family;
use sandbox::address;
use serde_json::json;
use test_support::world::Range;

use super::stage::{At, Stage, Web};

pub(crate) fn balancer(stage: &Stage) {
    let web = stage.web("balanced", 41).create_open().serve_by(&["a"]);
    web.expect(At::NodePort, Expect::By(&["a"]));
    web.expect(At::Balancer, Expect::Silence);
    web.balance(Some("VIP"));
    web.expect(At::Balancer, Expect::By(&["a"]));
    // A balancer that is a proxy itself must get the packets that pods send to it.
    web.balance(Some("Proxy"));
    web.expect(At::Balancer, Expect::Silence);
    web.balance(Some("VIP"));
    web.expect(At::Balancer, Expect::By(&["a"]));
    web.balance(None);
    web.expect(At::Balancer, Expect::Silence);
    web.expect(At::NodePort, Expect::By(&["a"]));
}

pub(crate) fn source_ranges(stage: &Stage) {
    let web = stage.web("ranged", 42).create_open().serve_by(&["a"]);
    web.balance(Some("VIP"));
    web.expect(At::Balancer, Expect::By(&["a"]));
    let second = [
        (Family::V4, address::CLIENT_SECOND_V4.into(), format!("{}/32", address::CLIENT_SECOND_V4)),
        (Family::V6, address::CLIENT_SECOND_V6.into(), format!("{}/128", address::CLIENT_SECOND_V6)),
    ];
    let ranges: Vec<&String> = second.iter().map(|(_, _, range)| range).collect();
    web.patch_spec(json!({"loadBalancerSourceRanges": ranges}));
    web.expect(At::Balancer, Expect::Silence);
    for (family, ip, _) in &second {
        let admitted = Caller::Outside(Some(*ip));
        web.expect_at(web.address(At::Balancer, *family), admitted, Expect::By(&["a"]));
    }
    web.expect(At::NodePort, Expect::By(&["a"]));
    web.patch_spec(json!({"loadBalancerSourceRanges": ["0.0.0.0/0", "::/0"]}));
    web.expect(At::Balancer, Expect::By(&["a"]));
    web.patch_spec(json!({"loadBalancerSourceRanges": ranges}));
    web.expect(At::Balancer, Expect::Silence);
    web.patch_spec(json!({"loadBalancerSourceRanges": null}));
    web.expect(At::Balancer, Expect::By(&["a"]));
}

pub(crate) fn external_ips(stage: &Stage) {
    let web = stage.web("external-ips", 43).create().serve_by(&["a"]);
    let other: Web<'_> = stage.web("external-ips", 44);
    web.expect(At::Cluster, Expect::By(&["a"]));
    web.expect(At::External, Expect::Silence);
    web.patch_spec(json!({"externalIPs": web.ips(Range::External)}));
    web.expect(At::External, Expect::By(&["a"]));
    web.patch_spec(json!({"externalIPs": other.ips(Range::External)}));
    other.expect(At::External, Expect::By(&["a"]));
    web.expect(At::External, Expect::Silence);
    web.patch_spec(json!({"externalIPs": null}));
    other.expect(At::External, Expect::Silence);
    web.expect(At::Cluster, Expect::By(&["a"]));
}
