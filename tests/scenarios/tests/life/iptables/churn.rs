//! A service that is not changed does not notice what happens to hundreds of others, nor that the agent is killed
//! meanwhile; and whatever the last life left, the next one makes it right.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use model::{Family, Protocol};
use scenarios::{Carrier, Case, wait_until};
use serde_json::json;

use super::super::churn::{assert_no_drift, crowd_ip, put_crowd};
use super::super::places::{at_cluster_ip, at_node_port};
use super::super::stage::{BINARY, From, PROMPT, SOON};
use super::super::traffic::Traffic;
use super::both;
use super::rig::{Rig, await_that};

const NODE_PORT: u16 = 30080;
const CHURN: Duration = Duration::from_secs(8);
const KILLS: u16 = 10;
const TREES: [&str; 2] = ["nat", "filter"];

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = both("churn of 300 services fails no connection of another", churn);
    cases.extend(both("kills under churn leave no wrong rule behind", kills));
    cases
}

fn start(carrier: Carrier) -> (Rig, Traffic) {
    let mut rig = Rig::new(carrier);
    let ports = json!([{"name": "main", "protocol": "TCP", "port": 80, "nodePort": NODE_PORT}]);
    let stable = rig.service("stable", 1, Protocol::Tcp).with("type", "NodePort").with("ports", ports);
    rig.folder.put_service(&stable);
    rig.put_endpoints("stable", Protocol::Tcp, &["a", "b", "c"]);
    put_crowd(&rig, 0);
    rig.start(&[PROMPT]);
    let pairs = Family::BOTH.into_iter().flat_map(|family| {
        [(From::Guest, at_cluster_ip(1, family)), (From::Outside, at_node_port(NODE_PORT, family))]
    });
    let traffic = Traffic::start(&rig, &pairs.collect::<Vec<_>>());
    (rig, traffic)
}

/// The first member of the crowd tells by its port which round it is.
fn has_round(rig: &Rig, round: u16, family: Family) -> bool {
    rig.rules(family).leaf(SocketAddr::new(crowd_ip(0, family), 1000 + round)).is_some()
}

fn churn(carrier: Carrier) {
    let (rig, traffic) = start(carrier);
    let started = Instant::now();
    let mut round = 0;
    while started.elapsed() < CHURN {
        round += 1;
        put_crowd(&rig, round);
        let before = traffic.asked();
        assert!(wait_until(SOON, || traffic.asked() > before + 40), "traffic stands still");
        // In each sixth round it has no endpoints, and no rule in nat.
        let arrived = || Family::BOTH.into_iter().all(|family| has_round(&rig, round, family));
        assert!(round % 6 != 5 || await_that(SOON, arrived), "round {round} never arrived\n{}", rig.log());
    }
    println!("{}: {} connections over {round} rewrites of 300 services", carrier.name(), traffic.finish());
    assert_no_drift(&rig);
}

fn kills(carrier: Carrier) {
    let (mut rig, traffic) = start(carrier);
    for kill in 1..=KILLS {
        if kill % 3 == 0 {
            rig.agent().await_ready().unwrap_or_else(|why| panic!("{why}"));
        }
        // Lives of all lengths, most of them in the middle of a sync.
        let life = Duration::from_millis(u64::from(kill) * 37 % 250);
        let born = Instant::now();
        put_crowd(&rig, 3 * kill);
        wait_until(SOON, || born.elapsed() > life);
        rig.agent().kill();
        rig.agent().launch().unwrap();
    }
    rig.agent().await_ready().unwrap_or_else(|why| panic!("{why}"));
    println!("{}: {KILLS} kills, {} connections meanwhile", carrier.name(), traffic.finish());
    // As an agent would have written them that never saw anything else.
    let after = Family::BOTH.map(|family| rig.rules(family).comparable());
    rig.agent().stop().unwrap();
    cleanup(&rig);
    rig.agent().restart().unwrap();
    for family in Family::BOTH {
        let fresh = rig.rules(family).comparable();
        let after = &after[family.index()];
        for table in TREES {
            let count = after.names(table).count();
            assert_eq!(count, fresh.names(table).count(), "{family} {table}: {}", after.difference(&fresh));
        }
        assert!(*after == fresh, "{family}: {}", after.difference(&fresh));
    }
}

pub(super) fn cleanup(rig: &Rig) {
    let mut command = Command::new(BINARY.get().unwrap());
    command.arg("--cleanup").env("XTABLES_LOCKFILE", rig.folder.lock());
    rig.sandbox.node.enter(&mut command).unwrap();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
