//! Which endpoints a client gets: affinity and traffic policies.

use conformance_support::site::{Expect, SOON};
use model::{Family, Protocol};
use sandbox::address;
use serde_json::json;
use std::net::IpAddr;
use test_support::world::node_port;
use test_support::{ANSWER, patient, wait_until};

use super::nft;
use super::stage::{At, Stage, Web};

/// Enough for both of two endpoints to be seen if the choice is free.
const QUESTIONS: usize = 16;

pub(crate) fn affinity(stage: &Stage) {
    let web = stage.web("affine", 38).create().serve_by(&["a", "b"]);
    web.expect(At::Cluster, Expect::By(&["a", "b"]));
    for (seconds, left) in [(3600, "59m"), (36000, "9h59m"), (7200, "1h59m")] {
        let config = json!({"clientIP": {"timeoutSeconds": seconds}});
        web.patch_spec(json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": config}));
        expect_time_left(web, left);
    }
    web.patch_spec(json!({"sessionAffinity": "None", "sessionAffinityConfig": null}));
    web.expect(At::Cluster, Expect::By(&["a", "b"]));
}

fn expect_pinned(web: Web<'_>, family: Family) {
    let (caller, to) = (At::Cluster.caller(), web.address(At::Cluster, family));
    let mut answers = Vec::new();
    let pinned = wait_until(SOON, || {
        let ask = || web.stage.site.ask(caller, Protocol::Tcp, to, patient(ANSWER)).by().map(str::to_owned);
        answers = (0..QUESTIONS).map(|_| ask()).collect();
        answers.iter().all(|by| by.is_some() && *by == answers[0])
    });
    assert!(pinned, "{to} answers by turns: {answers:?}");
}

/// How long the kernel keeps the pin of a client that has just asked, in the words of `nft`.
fn expect_time_left(web: Web<'_>, left: &str) {
    for family in Family::BOTH {
        let ip = web.address(At::Cluster, family).ip();
        let mut pins = Vec::new();
        let found = wait_until(SOON, || {
            expect_pinned(web, family);
            let text = nft::table(web.stage.site.node(), family);
            let lines = text.lines().filter(|line| line.contains(&format!(" . {ip} . ")));
            pins = lines
                .filter_map(|line| line.split_once(" expires "))
                .map(|(_, end)| end.to_owned())
                .collect();
            pins.iter().any(|end| end.starts_with(left))
        });
        assert!(found, "a pin of {ip} expires in {pins:?}, not in {left}");
    }
}

pub(crate) fn external(stage: &Stage) {
    let web = stage.web("external-policy", 39).create_open().serve_by(&["a", "c"]);
    web.balance(Some("VIP"));
    web.expect(At::Balancer, Expect::By(&["a", "c"]));
    expect_clients_seen(web, false);

    web.patch_spec(json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": node_port(39) + 1}));
    web.expect(At::Balancer, Expect::By(&["a"]));
    web.expect(At::NodePort, Expect::By(&["a"]));
    expect_clients_seen(web, true);
    web.serve_by(&["c"]);
    web.expect(At::Balancer, Expect::Silence);
    web.expect(At::NodePort, Expect::Silence);
    web.expect(At::Cluster, Expect::By(&["c"]));

    web.patch_spec(json!({"externalTrafficPolicy": "Cluster"}));
    web.expect(At::Balancer, Expect::By(&["c"]));
    web.expect(At::NodePort, Expect::By(&["c"]));
    expect_clients_seen(web, false);
}

/// Whether endpoints see the client himself, or the node.
fn expect_clients_seen(web: Web<'_>, as_they_are: bool) {
    let clients: [IpAddr; 2] = [address::CLIENT_V4.into(), address::CLIENT_V6.into()];
    for family in Family::BOTH {
        let to = web.address(At::Balancer, family);
        let seen = |ip: IpAddr| clients.contains(&ip) == as_they_are;
        web.stage.site.expect_seen_as(At::Balancer.caller(), to, seen);
    }
}

pub(crate) fn internal(stage: &Stage) {
    let web = stage.web("internal-policy", 40).create().serve_by(&["a", "c"]);
    web.expect(At::Cluster, Expect::By(&["a", "c"]));
    web.patch_spec(json!({"internalTrafficPolicy": "Local"}));
    web.expect(At::Cluster, Expect::By(&["a"]));
    web.serve_by(&["c"]);
    web.expect(At::Cluster, Expect::Silence);
    web.patch_spec(json!({"internalTrafficPolicy": "Cluster"}));
    web.expect(At::Cluster, Expect::By(&["c"]));
}
