//! ServiceCIDRs: what is in one and belongs to no service goes nowhere.

use std::net::{IpAddr, SocketAddr};

use conformance_support::paths;
use conformance_support::site::Expect;
use ipnet::IpNet;
use model::Protocol;
use sandbox::Server;
use test_support::manifest;

use super::stage::{At, Stage};

pub(crate) fn second_range(stage: &Stage) {
    let cidrs: [IpNet; 2] = ["10.97.0.0/24", "fd00:97::/112"].map(|cidr| cidr.parse().unwrap());
    let unused: [IpAddr; 2] = ["10.97.0.9", "fd00:97::9"].map(|ip| ip.parse().unwrap());
    let used: [IpAddr; 2] = ["10.97.0.20", "fd00:97::20"].map(|ip| ip.parse().unwrap());
    let sandbox = &stage.site.ground.sandbox;
    // The node sends what it does not know to the client, which has the address for once.
    let outsiders = unused.map(|ip| {
        sandbox.add_client_address(ip).unwrap();
        Server::tcp(&sandbox.client, "outsider", SocketAddr::new(ip, 80)).unwrap()
    });
    let expect_unused = |expected| {
        for outsider in &outsiders {
            stage.site.expect(At::Cluster.caller(), Protocol::Tcp, outsider.address(), expected);
        }
    };
    expect_unused(Expect::By(&["outsider"]));

    let range = manifest::service_cidr("second", &cidrs);
    stage.api().create(paths::SERVICE_CIDRS, &range).unwrap();
    expect_unused(Expect::Silence);
    let web = stage.web("in-second-range", 45);
    web.create_as(&web.manifest_at(&used)).serve_by(&["a"]);
    let expect_used = |expected| {
        for ip in used {
            web.expect_at(SocketAddr::new(ip, 80), At::Cluster.caller(), expected);
        }
    };
    expect_used(Expect::By(&["a"]));

    web.delete();
    expect_used(Expect::Silence);
    stage.api().delete(&paths::object(&range)).unwrap();
    expect_unused(Expect::By(&["outsider"]));
}
