//! New connections spread evenly over the endpoints there are, from the moment a change arrives.

use std::collections::BTreeMap;

use model::{Family, Protocol};
use test_support::{Carrier, Case};

use super::places::at_cluster_ip;
use super::rig::every_mode;
use super::stage::{ENDPOINTS, From, PROMPT, Stage};
use super::traffic::Traffic;

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = every_mode("connections spread evenly after scaling up and down", spread);
    cases.extend(every_mode("scaling a service fails no connection", scaling));
    cases
}

fn spread(carrier: Carrier) {
    let mut stage = Stage::of(carrier);
    stage.folder.put_service(&stage.service("web", 1, Protocol::Tcp));
    stage.put_endpoints("web", Protocol::Tcp, &ENDPOINTS[..3]);
    stage.start_with(&[PROMPT]);
    for pods in [&ENDPOINTS[..3], &ENDPOINTS, &ENDPOINTS[3..]] {
        stage.put_endpoints("web", Protocol::Tcp, pods);
        for family in Family::BOTH {
            stage.await_pool(1, family, pods);
            assert_even(&stage, family, pods);
        }
    }
}

/// No count is further from the mean than five standard deviations: by chance, one run in 50,000.
fn assert_even(stage: &Stage, family: Family, pods: &[&str]) {
    let total = 150 * pods.len();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..total {
        *counts.entry(stage.who(Protocol::Tcp, From::Guest, at_cluster_ip(1, family))).or_default() += 1;
    }
    let share = 1.0 / pods.len() as f64;
    let mean = total as f64 * share;
    let allowed = 5.0 * (mean * (1.0 - share)).sqrt();
    let names: Vec<&str> = counts.keys().map(String::as_str).collect();
    assert_eq!(names, pods, "{family}");
    for count in counts.values() {
        assert!((*count as f64 - mean).abs() < allowed, "{family}: {counts:?}, expected {mean:.0} each");
    }
}

/// Every server stays alive, so whichever endpoint a packet is sent to can answer.
fn scaling(carrier: Carrier) {
    let mut stage = Stage::of(carrier);
    stage.folder.put_service(&stage.service("web", 1, Protocol::Tcp));
    stage.put_endpoints("web", Protocol::Tcp, &ENDPOINTS);
    stage.start_with(&[PROMPT]);
    let [v4, v6] = Family::BOTH.map(|family| at_cluster_ip(1, family));
    let pairs = [(From::Guest, v4), (From::Guest, v6), (From::Outside, v4), (From::Outside, v6)];
    let traffic = Traffic::start(&stage, &pairs);
    for round in 0..100 {
        // Sizes 1 to 5 in an order that grows, shrinks and replaces.
        let (size, first) = (1 + round * 3 % 5, round * 2 % 5);
        let pods: Vec<&str> = (0..size).map(|at| ENDPOINTS[(first + at) % 5]).collect();
        stage.put_endpoints("web", Protocol::Tcp, &pods);
        traffic.go_on(10);
    }
    println!("{}: {} connections over 100 changes of a service", carrier.name(), traffic.finish());
}
