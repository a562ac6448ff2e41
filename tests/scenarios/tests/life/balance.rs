//! New connections spread evenly over the endpoints there are, from the moment a change arrives.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{Family, Protocol};
use scenarios::{Case, wait_until};

use super::case;
use super::places::at_cluster_ip;
use super::stage::{ENDPOINTS, From, SOON, Stage, at_load};
use super::traffic::Traffic;

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("connections spread evenly after scaling up and down", spread),
        case("scaling a service fails no connection", scaling),
        case("a change reaches traffic within 100 ms", latency),
    ]
}

fn spread() {
    let mut stage = Stage::new();
    stage.folder.put_service(&stage.service("web", 1, Protocol::Tcp));
    stage.put_endpoints("web", Protocol::Tcp, &ENDPOINTS[..3]);
    stage.start();
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
fn scaling() {
    let mut stage = Stage::new();
    stage.folder.put_service(&stage.service("web", 1, Protocol::Tcp));
    stage.put_endpoints("web", Protocol::Tcp, &ENDPOINTS);
    stage.start();
    let [v4, v6] = Family::BOTH.map(|family| at_cluster_ip(1, family));
    let pairs = [(From::Guest, v4), (From::Guest, v6), (From::Outside, v4), (From::Outside, v6)];
    let traffic = Traffic::start(&stage, &pairs);
    for round in 0..100 {
        // Sizes 1 to 5 in an order that grows, shrinks and replaces.
        let (size, first) = (1 + round * 3 % 5, round * 2 % 5);
        let pods: Vec<&str> = (0..size).map(|at| ENDPOINTS[(first + at) % 5]).collect();
        stage.put_endpoints("web", Protocol::Tcp, &pods);
        let before = traffic.asked();
        assert!(wait_until(SOON, || traffic.asked() >= before + 10), "traffic stands still");
    }
    println!("scaling a service: {} connections over 100 changes", traffic.finish());
}

fn latency() {
    let mut stage = Stage::new();
    stage.folder.put_service(&stage.service("web", 1, Protocol::Tcp));
    stage.put_endpoints("web", Protocol::Tcp, &["a"]);
    stage.start();
    let to = at_cluster_ip(1, Family::V4);
    stage.await_answer(Protocol::Tcp, From::Guest, to, "a");
    let mut times: Vec<Duration> = (0..20)
        .map(|round| {
            let pod = ["b", "a"][round % 2];
            stage.put_endpoints("web", Protocol::Tcp, &[pod]);
            stage.await_answer(Protocol::Tcp, From::Guest, to, pod)
        })
        .collect();
    times.sort();
    println!("a change reaches traffic: median {:?}, slowest {:?} of {}", times[10], times[19], times.len());
    assert!(times[10] < at_load(Duration::from_millis(100)), "{times:?}");
}
