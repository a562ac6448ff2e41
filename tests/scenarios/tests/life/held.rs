//! Connections that stay open keep working, whatever becomes of the agent and the rules.

use std::net::SocketAddr;

use model::{Family, Protocol};
use sandbox::probe::{Hold, Pulse};
use scenarios::{Case, wait_until};

use super::case;
use super::nft;
use super::stage::{ANSWER, ENDPOINTS, From, PORT, SOON, Stage, at_cluster_ip, at_node_port, external_ip};

const NODE_PORT: u16 = 30080;

pub fn cases() -> Vec<Case<'static>> {
    vec![case("open connections survive restarts, kills, scaling and rewrites", survive)]
}

/// Several per destination, so that every endpoint is likely to have one.
fn open_all(stage: &Stage) -> Vec<(String, Hold)> {
    let mut held = Vec::new();
    for family in Family::BOTH {
        let [cluster, node_port] = [at_cluster_ip(1, family), at_node_port(NODE_PORT, family)];
        let external = SocketAddr::new(external_ip(family), PORT);
        for (from, to) in [
            (From::Guest, cluster),
            (From::Node, cluster),
            (From::Outside, cluster),
            (From::Outside, node_port),
            (From::Outside, external),
        ] {
            for _ in 0..4 {
                let hold = Hold::open(stage.namespace(from), None, to, ANSWER);
                let hold = hold.unwrap_or_else(|outcome| panic!("{from:?} to {to}: {outcome:?}"));
                held.push((format!("{from:?} to {to} at {}", hold.by()), hold));
            }
        }
    }
    held
}

fn assert_alive(held: &mut [(String, Hold)], after: &str) {
    for (what, hold) in held {
        let pulse = hold.ping(ANSWER);
        assert!(matches!(pulse, Pulse::Alive(_)), "{what}, after {after}: {pulse:?}");
    }
}

fn survive() {
    let mut stage = Stage::new();
    let service = stage
        .service("web", 1, Protocol::Tcp)
        .with("type", "NodePort")
        .external_ips(&Family::BOTH.map(external_ip))
        .with(
            "ports",
            serde_json::json!([
                {"name": "main", "protocol": "TCP", "port": PORT, "nodePort": NODE_PORT}
            ]),
        );
    stage.folder.put_service(&service);
    stage.put_endpoints("web", Protocol::Tcp, &["a", "c"]);
    stage.start();
    let mut held = open_all(&stage);
    let await_pool = |stage: &Stage, pod: &str| {
        for family in Family::BOTH {
            stage.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(1, family), pod);
        }
    };
    stage.restart(false);
    assert_alive(&mut held, "SIGTERM and a restart");
    stage.restart(true);
    assert_alive(&mut held, "SIGKILL and a restart");
    stage.put_endpoints("web", Protocol::Tcp, &ENDPOINTS);
    await_pool(&stage, "e");
    assert_alive(&mut held, "more endpoints");
    stage.put_endpoints("web", Protocol::Tcp, &["a", "c", "d"]);
    await_pool(&stage, "d");
    assert_alive(&mut held, "the removal of other endpoints");
    for tamper in [&["flush", "ruleset"][..], &["delete", "table", "ip", nft::TABLE]] {
        nft::run(&stage.sandbox.node, tamper).unwrap();
        let complete =
            |family| nft::elements(&stage.sandbox.node, family, "endpoints").is_some_and(|e| e.len() == 6);
        let repaired = || Family::BOTH.into_iter().all(complete);
        assert!(wait_until(SOON, repaired), "never repaired after {tamper:?}\n{}", stage.log());
        assert_alive(&mut held, &format!("`nft {}` and its repair", tamper.join(" ")));
    }
    stage.put_endpoints("web", Protocol::Tcp, &["b"]);
    await_pool(&stage, "b");
    assert_alive(&mut held, "the removal of their own endpoints, which still serve");
}
