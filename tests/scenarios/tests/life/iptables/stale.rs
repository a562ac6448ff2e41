//! UDP flows that keep their port: those to gone endpoints and services move or end, those to living ones stay.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use model::{Family, Protocol};
use sandbox::Outcome;
use sandbox::probe::UdpFlow;
use scenarios::{Carrier, Case, ServiceManifest};

use super::super::places::{PORT, at_cluster_ip, at_node_port, cluster_ip, external_ip};
use super::super::stage::{From, PROMPT, SOON, at_load};
use super::both;
use super::rig::Rig;

const NODE_PORT: u16 = 30053;
const MOVED_WITHIN: Duration = Duration::from_secs(2);
/// The answer of a datagram that arrives comes in far less.
const ANSWER: Duration = Duration::from_millis(100);

pub(crate) fn cases() -> Vec<Case<'static>> {
    both("a UDP flow leaves a removed endpoint, and ends with its service", udp)
}

fn open_all(rig: &Rig) -> Vec<(String, UdpFlow)> {
    let in_family = |family: Family| {
        let asked = [
            (From::Guest, at_cluster_ip(1, family)),
            (From::Node, at_cluster_ip(1, family)),
            (From::Outside, SocketAddr::new(external_ip(family), PORT)),
            (From::Outside, at_node_port(NODE_PORT, family)),
        ];
        asked.map(|(from, to)| {
            let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let flow = UdpFlow::open(rig.namespace(from), any.parse().unwrap(), to).unwrap();
            (format!("{from:?} to {to}"), flow)
        })
    };
    Family::BOTH.into_iter().flat_map(in_family).collect()
}

/// Ask all until each is answered so; every question refreshes the flow's record. How long it took.
fn ask_until(rig: &Rig, flows: &[(String, UdpFlow)], done: impl Fn(&Outcome) -> bool) -> Duration {
    let started = Instant::now();
    for (what, flow) in flows {
        loop {
            let outcome = flow.ask(ANSWER);
            if done(&outcome) {
                break;
            }
            assert!(started.elapsed() < SOON, "{what}: {outcome:?}\n{}", rig.log());
        }
    }
    started.elapsed()
}

fn udp(carrier: Carrier) {
    let mut rig = Rig::new(carrier);
    let dns = ServiceManifest::new("dns", &Family::BOTH.map(|family| cluster_ip(1, family)))
        .with("type", "NodePort")
        .external_ips(&Family::BOTH.map(external_ip))
        .port("main", Protocol::Udp, PORT, NODE_PORT);
    rig.folder.put_service(&dns);
    rig.start(&[PROMPT]);
    let flows = open_all(&rig);
    for (what, flow) in &flows {
        assert_eq!(flow.ask(ANSWER).by(), None, "{what}");
    }
    rig.put_endpoints("dns", Protocol::Udp, &["a"]);
    let found = ask_until(&rig, &flows, |outcome| outcome.by() == Some("a"));
    rig.put_endpoints("dns", Protocol::Udp, &["b"]);
    let moved = ask_until(&rig, &flows, |outcome| outcome.by() == Some("b"));
    rig.restart(false);
    for (what, flow) in &flows {
        assert_eq!(flow.ask(ANSWER).by(), Some("b"), "{what} after a restart");
    }
    // The endpoint lives on and would answer.
    rig.folder.remove("service-dns");
    let ended = ask_until(&rig, &flows, |outcome| outcome.by().is_none());
    println!(
        "{}: UDP flows found an endpoint after {found:?}, moved after {moved:?}, ended after {ended:?}",
        carrier.name()
    );
    for (what, took) in [("found", found), ("moved", moved), ("ended", ended)] {
        assert!(took < at_load(MOVED_WITHIN + ANSWER * 8), "{what} after {took:?}\n{}", rig.log());
    }
    for (what, flow) in &flows {
        assert_eq!(flow.ask(ANSWER).by(), None, "{what}");
    }
}
