//! Connections that stay open keep working, whatever becomes of the agent and the rules.

use std::net::SocketAddr;

use model::{Family, Protocol};
use sandbox::probe::{Hold, Pulse};
use test_support::{Carrier, Case, wait_until};

use super::places::{PORT, at_cluster_ip, at_node_port, external_ip};
use super::rig::every_mode;
use super::stage::{ENDPOINTS, From, PROMPT, SOON, Stage, answer};

const NODE_PORT: u16 = 30080;

pub(crate) fn cases() -> Vec<Case<'static>> {
    every_mode("open connections survive restarts, kills, scaling and rewrites", survive)
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
                let hold = Hold::open(stage.namespace(from), None, to, answer());
                let hold = hold.unwrap_or_else(|outcome| panic!("{from:?} to {to}: {outcome:?}"));
                held.push((format!("{from:?} to {to} at {}", hold.by()), hold));
            }
        }
    }
    held
}

fn assert_alive(held: &mut [(String, Hold)], after: &str) {
    for (what, hold) in held {
        let pulse = hold.ping(answer());
        assert!(matches!(pulse, Pulse::Alive(_)), "{what}, after {after}: {pulse:?}");
    }
}

/// Nothing is on its way. While the rules are wiped no packet is translated, and one that the client
/// cannot know ends its connection; that is not what this case is about.
fn is_quiet(stage: &Stage) -> bool {
    let sends_nothing = |namespace: &sandbox::Namespace| {
        let sockets = |file: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap();
        let text = namespace.run(|| sockets("tcp") + &sockets("tcp6"));
        // The fifth column: bytes not yet acknowledged, and bytes not yet read.
        let queues = text.lines().filter_map(|line| line.split_whitespace().nth(4)?.split_once(':'));
        queues.into_iter().all(|(sent, _)| sent.chars().all(|digit| digit == '0'))
    };
    let pods = stage.sandbox.pods().iter().map(|pod| &pod.namespace);
    pods.chain([&stage.sandbox.client, &stage.sandbox.node]).all(sends_nothing)
}

fn survive(carrier: Carrier) {
    let mut stage = Stage::of(carrier);
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
    stage.start_with(&[PROMPT]);
    let mut held = open_all(&stage);
    let await_pool = |stage: &Stage, pod: &str| {
        for family in Family::BOTH {
            stage.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(1, family), pod);
        }
    };
    // A process carries them to its end.
    let held_by_kernel = !carrier.is_a_process();
    stage.restart(false);
    if held_by_kernel {
        assert_alive(&mut held, "SIGTERM and a restart");
    }
    stage.restart(true);
    match held_by_kernel {
        true => assert_alive(&mut held, "SIGKILL and a restart"),
        false => held = open_all(&stage),
    }
    stage.put_endpoints("web", Protocol::Tcp, &ENDPOINTS);
    await_pool(&stage, "e");
    assert_alive(&mut held, "more endpoints");
    stage.put_endpoints("web", Protocol::Tcp, &["a", "c", "d"]);
    stage.await_pools(1, &["a", "c", "d"]);
    assert_alive(&mut held, "the removal of other endpoints");
    let rig = stage.rig();
    let damages = Family::BOTH.map(|family| rig.slight_damage(family)).into_iter().chain(rig.grave_damages());
    // The next rewrite removes what scaling left unused; let it be this one.
    stage.restart(false);
    if !held_by_kernel {
        held = open_all(&stage);
    }
    let whole = stage.rules();
    for damage in damages {
        assert!(wait_until(SOON, || is_quiet(&stage)), "unacknowledged data");
        (damage.inflict)(&stage);
        stage.await_rules(&whole, &format!("{}: never repaired", damage.what));
        assert_alive(&mut held, &format!("{} and its repair", damage.what));
    }
    stage.put_endpoints("web", Protocol::Tcp, &["b"]);
    await_pool(&stage, "b");
    assert_alive(&mut held, "the removal of their own endpoints, which still serve");
}
