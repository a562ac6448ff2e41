//! A service that is not changed does not notice what happens to hundreds of others.

use std::net::{IpAddr, SocketAddr};

use model::{Family, Protocol};
use serde_json::{Value, json};
use test_support::{Carrier, Case, ServiceManifest, fewer, wait_until};

use super::places::{at_cluster_ip, at_node_port};
use super::rig::every_mode;
use super::stage::{From, OTHER_NODE, PROMPT, SOON, Stage, list, slices};
use super::traffic::Traffic;

const NODE_PORT: u16 = 30080;

pub(crate) fn cases() -> Vec<Case<'static>> {
    every_mode("churn of 300 services fails no connection of another", churn)
}

/// Cluster IPs of the crowd; from 10.96.8.0 on, clear of those that cases use.
pub(crate) fn crowd_ip(number: u16, family: Family) -> IpAddr {
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

/// A service without clients, and its endpoints: `size` of them from `first` on.
pub(crate) fn crowd_member(number: u16, port: u16, first: u16, size: u16) -> Vec<Value> {
    let name = format!("crowd-{number}");
    let ips = Family::BOTH.map(|family| crowd_ip(number, family));
    let service = ServiceManifest::new(&name, &ips).port("main", Protocol::Tcp, port, 0);
    let pods: Vec<[IpAddr; 2]> =
        (0..size).map(|at| Family::BOTH.map(|family| crowd_pod(first + at, family))).collect();
    let slices = slices(&name, Protocol::Tcp, &pods, &vec![OTHER_NODE; pods.len()]);
    std::iter::once(service.to_json()).chain(slices).collect()
}

/// Members share files, each with the members of one rest; a multiple of 3, so that a round changes few files.
const FILES: u16 = 33;

/// Round by round a third of the members get another pool, or go, or come back.
fn member_in(round: u16, number: u16) -> Vec<Value> {
    let version = (round + number) / 3;
    match (number + version) % 11 {
        0 => Vec::new(),
        _ => crowd_member(number, 80, number % 7 * 30 + version % 5, (number * 3 + version) % 6),
    }
}

/// Write what the round changes. The first member, written last, tells by its port which round it is.
pub(crate) fn put_crowd(stage: &Stage, round: u16) {
    for file in (1..=FILES).filter(|file| round == 0 || (file + round).is_multiple_of(3)) {
        let members = (file..=330).step_by(usize::from(FILES));
        stage
            .folder
            .put(&format!("crowd-{file:02}"), &list(members.flat_map(|number| member_in(round, number))));
    }
    stage.folder.put("crowd-00", &list(crowd_member(0, 1000 + round, 1, round % 6)));
}

fn has_round(stage: &Stage, round: u16) -> bool {
    Family::BOTH.into_iter().all(|family| {
        let at = SocketAddr::new(crowd_ip(0, family), 1000 + round);
        let found = stage.rig().destinations(stage, family);
        // Any addresses: what counts is how many are shown.
        let pool = (0..round % 6).map(|port| SocketAddr::new(at.ip(), port)).collect();
        found.get(&at).is_some_and(|found| found.len() == stage.rig().shown(pool).len())
    })
}

fn churn(carrier: Carrier) {
    let mut stage = Stage::of(carrier);
    let ports = json!([{"name": "main", "protocol": "TCP", "port": 80, "nodePort": NODE_PORT}]);
    let stable = stage.service("stable", 1, Protocol::Tcp).with("type", "NodePort").with("ports", ports);
    stage.folder.put_service(&stable);
    stage.put_endpoints("stable", Protocol::Tcp, &["a", "b", "c"]);
    put_crowd(&stage, 0);
    stage.start_with(&[PROMPT]);
    let pairs = Family::BOTH.into_iter().flat_map(|family| {
        [(From::Guest, at_cluster_ip(1, family)), (From::Outside, at_node_port(NODE_PORT, family))]
    });
    let traffic = Traffic::start(&stage, &pairs.collect::<Vec<_>>());
    let rounds = fewer(stage.rig().rounds(100));
    let mut compared = 0;
    for round in 1..=rounds {
        put_crowd(&stage, round);
        compared += usize::from(is_compared(&mut stage));
        traffic.go_on(40);
        // A burst, then its end is awaited.
        let arrived = || has_round(&stage, round);
        assert!(round % 5 != 0 || wait_until(SOON, arrived), "round {round} never arrived\n{}", stage.log());
    }
    let connections = traffic.finish();
    println!(
        "{}: {connections} connections over {rounds} rewrites of 300 services, {compared} compared",
        carrier.name()
    );
    assert!(compared > 0, "no comparison was answered");
    assert_no_drift(&stage);
}

/// Rules are read back while they are written: none is missing or extra because of that. Where it takes long to read them,
/// it may be refused.
fn is_compared(stage: &mut Stage) -> bool {
    let page: Value = serde_json::from_str(&stage.agent().page("/pointsman/v1/diff").unwrap()).unwrap();
    let is_refused = page["error"].is_string();
    assert!(is_refused || page["compared"].as_u64() > Some(0) && page["differenceCount"] == 0, "{page:#}");
    !is_refused
}

/// The agent must know its own changes from those of others.
pub(crate) fn assert_no_drift(stage: &Stage) {
    let log = stage.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("rewriting all rules")).collect();
    assert!(lines.is_empty(), "the agent took its own changes for damage: {lines:?}");
}
