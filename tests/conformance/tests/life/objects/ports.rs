//! Ports of a service and of its slices.

use std::net::SocketAddr;

use conformance_support::site::Expect;
use model::Family;
use serde_json::{Value, json};
use test_support::directory::{MAIN_PORT, SECOND_PORT};

use super::stage::{At, Stage, Web};

fn ports_of_slice(names: [&str; 2], number: u16) -> Value {
    let [tcp, udp] = names;
    json!({"ports": [
        {"name": tcp, "protocol": "TCP", "port": number},
        {"name": udp, "protocol": "UDP", "port": number},
    ]})
}

fn expect_on(web: Web<'_>, port: u16, expected: Expect<'_>) {
    for family in Family::BOTH {
        let to = SocketAddr::new(web.address(At::Cluster, family).ip(), port);
        web.expect_at(to, At::Cluster.caller(), expected);
    }
}

/// Names join the two; between the changes the port is not served.
pub(crate) fn renamed(stage: &Stage) {
    let web = stage.web("port-renamed", 22).create().serve_by(&["a"]);
    web.expect(At::Cluster, Expect::By(&["a"]));
    let mut ports = web.ports(80, None);
    ports[0]["name"] = "http".into();
    ports[1]["name"] = "quic".into();
    web.patch_spec(json!({"ports": ports}));
    web.expect(At::Cluster, Expect::Refused);
    web.patch_slices(&ports_of_slice(["http", "quic"], MAIN_PORT));
    web.expect(At::Cluster, Expect::By(&["a"]));
}

pub(crate) fn renumbered(stage: &Stage) {
    let web = stage.web("port-number", 23).create().serve_by(&["a"]);
    web.expect(At::Cluster, Expect::By(&["a"]));
    web.patch_spec(json!({"ports": web.ports(81, None)}));
    expect_on(web, 81, Expect::By(&["a"]));
    expect_on(web, 80, Expect::Refused);
}

/// A controller follows the target port in the slices.
pub(crate) fn retargeted(stage: &Stage) {
    let web = stage.web("port-target", 24).create().serve_by(&["a"]);
    web.expect(At::Cluster, Expect::By(&["a"]));
    let mut ports = web.ports(80, None);
    ports[0]["targetPort"] = SECOND_PORT.into();
    ports[1]["targetPort"] = SECOND_PORT.into();
    web.patch_spec(json!({"ports": ports}));
    web.patch_slices(&ports_of_slice(["tcp", "udp"], SECOND_PORT));
    web.expect(At::Cluster, Expect::By(&["a/9090"]));
}

pub(crate) fn added(stage: &Stage) {
    let web = stage.web("port-added", 25).create().serve_by(&["a"]);
    expect_on(web, 80, Expect::By(&["a"]));
    expect_on(web, 90, Expect::Refused);
    let mut ports = web.ports(80, None);
    let more = [("more-tcp", "TCP"), ("more-udp", "UDP")]
        .map(|(name, protocol)| json!({"name": name, "protocol": protocol, "port": 90}));
    ports.as_array_mut().unwrap().extend(more);
    web.patch_spec(json!({"ports": ports}));
    let mut of_slice = ports_of_slice(["tcp", "udp"], MAIN_PORT);
    let second = ports_of_slice(["more-tcp", "more-udp"], SECOND_PORT);
    of_slice["ports"].as_array_mut().unwrap().extend(second["ports"].as_array().unwrap().clone());
    web.patch_slices(&of_slice);
    expect_on(web, 90, Expect::By(&["a/9090"]));
    expect_on(web, 80, Expect::By(&["a"]));
    web.patch_spec(json!({"ports": web.ports(80, None)}));
    expect_on(web, 90, Expect::Refused);
    expect_on(web, 80, Expect::By(&["a"]));
}
