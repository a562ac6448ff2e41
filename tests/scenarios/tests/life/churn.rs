//! A service that nobody touches does not notice what happens to hundreds of others.

use std::net::IpAddr;

use model::{Family, Protocol};
use scenarios::{Case, ServiceManifest, wait_until};
use serde_json::Value;

use super::case;
use super::nft;
use super::stage::{From, OTHER_NODE, PROMPT, SOON, Stage, at_cluster_ip, at_node_port, slices};
use super::traffic::Traffic;

const NODE_PORT: u16 = 30080;

pub fn cases() -> Vec<Case<'static>> {
    vec![case("churn of 300 services fails no connection of another", churn)]
}

/// Cluster IPs of the crowd; from 10.96.8.0 on, clear of those that cases use.
fn crowd_ip(number: u16, family: Family) -> IpAddr {
    match family {
        Family::V4 => [10, 96, 8 + (number >> 8) as u8, number as u8].into(),
        Family::V6 => [0xfd00, 0x96, 0, 0, 0, 0, 0, 0x8000 + number].into(),
    }
}

fn crowd_pod(number: u16, family: Family) -> IpAddr {
    match family {
        Family::V4 => [10, 244, 2 + (number >> 8) as u8, number as u8].into(),
        Family::V6 => [0xfd00, 0x244, 2, 0, 0, 0, 1, number].into(),
    }
}

/// A service nobody connects to, and its endpoints: `size` of them from `first` on.
pub fn crowd_member(number: u16, port: u16, first: u16, size: u16) -> Vec<Value> {
    let name = format!("crowd-{number}");
    let ips = Family::BOTH.map(|family| crowd_ip(number, family));
    let service = ServiceManifest::new(&name, &ips).port("main", Protocol::Tcp, port, 0);
    let pods: Vec<[IpAddr; 2]> =
        (0..size).map(|at| Family::BOTH.map(|family| crowd_pod(first + at, family))).collect();
    let slices = slices(&name, Protocol::Tcp, &pods, &vec![OTHER_NODE; pods.len()]);
    std::iter::once(service.to_json()).chain(slices).collect()
}

/// Round by round a third of the members get another pool, or go, or come back. The first tells by its port
/// which round it is.
fn crowd(round: u16) -> String {
    let members = (1..=330).filter_map(|number| {
        let version = (round + number) / 3;
        let exists = (number + version) % 11 != 0;
        exists.then(|| crowd_member(number, 80, number % 7 * 30 + version % 5, (number * 3 + version) % 6))
    });
    let first = crowd_member(0, 1000 + round, 1, round % 6);
    let documents = members.flatten().chain(first).map(|object| object.to_string());
    documents.collect::<Vec<_>>().join("\n---\n")
}

fn has_round(stage: &Stage, round: u16, family: Family) -> bool {
    let map = if round % 6 == 0 { "no-endpoint-reject-ips" } else { "service-ips" };
    let key = format!("{{ {} . tcp . {} }}", crowd_ip(0, family), 1000 + round);
    let arguments = ["get", "element", nft::family_word(family), nft::TABLE, map, &key];
    nft::run(&stage.sandbox.node, &arguments).is_ok()
}

fn churn() {
    let mut stage = Stage::new();
    let ports = serde_json::json!([{"name": "main", "protocol": "TCP", "port": 80, "nodePort": NODE_PORT}]);
    stage.folder.put_service(
        &stage.service("stable", 1, Protocol::Tcp).with("type", "NodePort").with("ports", ports),
    );
    stage.put_endpoints("stable", Protocol::Tcp, &["a", "b", "c"]);
    stage.folder.put_text("crowd.yaml", &crowd(0));
    stage.start_with(&[PROMPT]);
    let [v4, v6] = Family::BOTH.map(|family| at_cluster_ip(1, family));
    let outside = Family::BOTH.map(|family| (From::Outside, at_node_port(NODE_PORT, family)));
    let traffic = Traffic::start(&stage, &[(From::Guest, v4), (From::Guest, v6), outside[0], outside[1]]);
    for round in 1..=100 {
        stage.folder.put_text("crowd.yaml", &crowd(round));
        let arrived = || Family::BOTH.into_iter().all(|family| has_round(&stage, round, family));
        assert!(wait_until(SOON, arrived), "round {round} never arrived\n{}", stage.log());
    }
    println!("churn: {} connections over 100 rewrites of 300 services", traffic.finish());
    assert_no_drift(&stage);
}

/// The agent must know its own changes from those of others.
pub fn assert_no_drift(stage: &Stage) {
    let log = stage.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("Somebody else")).collect();
    assert!(lines.is_empty(), "the agent took its own changes for damage: {lines:?}");
}
