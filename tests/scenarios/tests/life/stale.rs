//! Recorded flows: those to gone endpoints move or end, those to living ones are left alone.
//!
//! A UDP flow that keeps its source port keeps its recorded target for as long as it is used.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use kernel::conntrack::{Conntrack, Filter};
use model::{Family, Protocol};
use sandbox::Outcome;
use sandbox::probe::{Hold, UdpFlow};
use scenarios::{Case, ServiceManifest, wait_until};

use super::case;
use super::nft;
use super::places::{PORT, at_cluster_ip, at_node_port, cluster_ip, external_ip};
use super::stage::{From, PROMPT, SOON, Stage, at_load};

const NODE_PORT: u16 = 30053;
const MOVED_WITHIN: Duration = Duration::from_secs(1);
/// The answer of a datagram that arrives comes in far less.
const ANSWER: Duration = Duration::from_millis(100);

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("a UDP flow leaves a removed endpoint", udp_moves),
        case("a UDP flow from before the first endpoint finds it", udp_before_endpoints),
        case("a UDP flow ends with its service, external IP or last endpoint", udp_ends),
        case("UDP flows to living endpoints stay over changes and restarts", udp_stays),
        case("a half-open TCP connection leaves a removed endpoint", half_open),
    ]
}

fn dns() -> ServiceManifest {
    ServiceManifest::new("dns", &Family::BOTH.map(|family| cluster_ip(1, family)))
        .with("type", "NodePort")
        .external_ips(&Family::BOTH.map(external_ip))
        .port("main", Protocol::Udp, PORT, NODE_PORT)
}

fn start(pods: &[&str]) -> Stage {
    let mut stage = Stage::new();
    stage.folder.put_service(&dns());
    stage.put_endpoints("dns", Protocol::Udp, pods);
    stage.start_with(&[PROMPT]);
    stage
}

/// One flow to each kind of destination, in each family.
fn open_all(stage: &Stage) -> Vec<(String, UdpFlow)> {
    let mut flows = Vec::new();
    for family in Family::BOTH {
        let external = SocketAddr::new(external_ip(family), PORT);
        for (from, to) in [
            (From::Guest, at_cluster_ip(1, family)),
            (From::Node, at_cluster_ip(1, family)),
            (From::Outside, external),
            (From::Outside, at_node_port(NODE_PORT, family)),
        ] {
            flows.push((format!("{from:?} to {to}"), open(stage, from, to)));
        }
    }
    flows
}

fn open(stage: &Stage, from: From, to: SocketAddr) -> UdpFlow {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    UdpFlow::open(stage.namespace(from), any.parse().unwrap(), to).unwrap()
}

/// Ask until `done`; how long it took. Every question refreshes the flow's record.
fn ask_until(flow: &UdpFlow, what: &str, stage: &Stage, done: impl Fn(&Outcome) -> bool) -> Duration {
    let started = Instant::now();
    loop {
        let outcome = flow.ask(ANSWER);
        if done(&outcome) {
            return started.elapsed();
        }
        assert!(started.elapsed() < SOON, "{what}: {outcome:?}\n{}", stage.log());
    }
}

fn udp_moves() {
    let stage = start(&["a"]);
    let flows = open_all(&stage);
    for (what, flow) in &flows {
        ask_until(flow, what, &stage, |outcome| outcome.by() == Some("a"));
    }
    let changed = Instant::now();
    stage.put_endpoints("dns", Protocol::Udp, &["b"]);
    for (what, flow) in &flows {
        ask_until(flow, what, &stage, |outcome| outcome.by() == Some("b"));
    }
    let took = changed.elapsed();
    println!("{} UDP flows moved to a living endpoint within {took:?}", flows.len());
    assert!(took < at_load(MOVED_WITHIN), "{took:?}\n{}", stage.log());
}

fn udp_before_endpoints() {
    let stage = start(&[]);
    let flows = open_all(&stage);
    for (what, flow) in &flows {
        let outcome = flow.ask(ANSWER);
        assert_eq!(outcome.by(), None, "{what}");
    }
    let changed = Instant::now();
    stage.put_endpoints("dns", Protocol::Udp, &["a"]);
    for (what, flow) in &flows {
        ask_until(flow, what, &stage, |outcome| outcome.by() == Some("a"));
    }
    let took = changed.elapsed();
    println!("{} UDP flows from before found the first endpoint within {took:?}", flows.len());
    assert!(took < at_load(MOVED_WITHIN), "{took:?}\n{}", stage.log());
}

/// The old endpoint lives on and would answer.
fn udp_ends() {
    for what in ["service", "external IP", "last endpoint"] {
        let stage = start(&["a"]);
        let flows = open_all(&stage);
        for (name, flow) in &flows {
            ask_until(flow, name, &stage, |outcome| outcome.by() == Some("a"));
        }
        let changed = Instant::now();
        match what {
            "service" => stage.folder.remove("service-dns"),
            "external IP" => stage.folder.put_service(&dns().external_ips(&[])),
            _ => stage.put_endpoints("dns", Protocol::Udp, &[]),
        }
        for (name, flow) in &flows {
            let concerned = what != "external IP" || name.contains("198.51") || name.contains("2001:db8");
            match concerned {
                true => drop(ask_until(flow, name, &stage, |outcome| outcome.by().is_none())),
                false => assert_eq!(flow.ask(ANSWER).by(), Some("a"), "{name}: {what}"),
            }
        }
        let took = changed.elapsed();
        println!("{what} removed: its UDP flows ended within {took:?}");
        assert!(took < at_load(MOVED_WITHIN + ANSWER * 8), "{what}: {took:?}\n{}", stage.log());
        for (name, flow) in flows.iter().filter(|_| what != "external IP") {
            assert_eq!(flow.ask(ANSWER).by(), None, "{name}: {what}");
        }
    }
}

fn udp_stays() {
    let mut stage = start(&["a", "b", "c"]);
    let flows: Vec<_> = (0..4).flat_map(|_| open_all(&stage)).collect();
    let by = |flow: &UdpFlow| flow.ask(super::stage::ANSWER).by().map(str::to_owned);
    let first: Vec<_> = flows.iter().map(|(_, flow)| by(flow).unwrap()).collect();
    let assert_kept = |after: &str, gone: &str| {
        for ((what, flow), pod) in flows.iter().zip(&first).filter(|(_, pod)| **pod != gone) {
            assert_eq!(by(flow).as_ref(), Some(pod), "{what} after {after}");
        }
    };
    stage.put_endpoints("dns", Protocol::Udp, &["a", "b", "c", "d"]);
    for family in Family::BOTH {
        stage.await_answer(Protocol::Udp, From::Guest, at_cluster_ip(1, family), "d");
    }
    assert_kept("a new endpoint", "");
    stage.restart(false);
    assert_kept("SIGTERM and a restart", "");
    stage.restart(true);
    assert_kept("SIGKILL and a restart", "");
    nft::run(&stage.sandbox.node, &["flush", "set", "ip", nft::TABLE, "cluster-ips"]).unwrap();
    stage.put_endpoints("dns", Protocol::Udp, &["a", "b", "d", "e"]);
    for family in Family::BOTH {
        stage.await_answer(Protocol::Udp, From::Guest, at_cluster_ip(1, family), "e");
    }
    // Those of `c` moved, which shows that the flows were looked at.
    for ((what, flow), _) in flows.iter().zip(&first).filter(|(_, pod)| *pod == "c") {
        ask_until(flow, what, &stage, |outcome| outcome.by().is_some_and(|by| by != "c"));
    }
    assert_kept("the removal of another endpoint", "c");
}

/// The endpoint swallows every packet. Its removal must reach the connection before the next attempt does:
/// TCP tries again after 1 s.
fn half_open() {
    for family in Family::BOTH {
        let mut stage = Stage::new();
        stage.folder.put_service(&stage.service("web", 1, Protocol::Tcp));
        stage.put_endpoints("web", Protocol::Tcp, &["a"]);
        nft::load(
            &stage.sandbox.pod("a").unwrap().namespace,
            "table inet silence { chain input { type filter hook input priority 0; meta l4proto tcp drop; }; }",
        );
        stage.start();
        let to = at_cluster_ip(1, family);
        for (from, seen) in [(From::Guest, "guest"), (From::Outside, "outside")] {
            stage.put_endpoints("web", Protocol::Tcp, &["a"]);
            stage.await_pool(1, family, &["a"]);
            let namespace = stage.namespace(from).try_clone().unwrap();
            let asking = std::thread::spawn(move || Hold::open(&namespace, None, to, SOON));
            await_flow(&stage, family);
            stage.put_endpoints("web", Protocol::Tcp, &["b"]);
            let hold = asking.join().unwrap();
            let hold =
                hold.unwrap_or_else(|outcome| panic!("{seen}, {family}: {outcome:?}\n{}", stage.log()));
            let took = hold.opened().took().unwrap_or_default();
            assert_eq!(hold.by(), "b");
            println!("half-open connection of {seen}, {family}: moved, connected after {took:?}");
            assert!(
                took < at_load(Duration::from_millis(1800)),
                "{seen}, {family}: {took:?}\n{}",
                stage.log()
            );
        }
        assert_eq!(stage.agent().probe("/healthz"), Some(200));
    }
}

/// Until the kernel has recorded the attempt: the change must not come before it.
fn await_flow(stage: &Stage, family: Family) {
    let silent = stage.address("a", family);
    let is_recorded = || {
        let mut found = false;
        let listed = Conntrack::dump(&Filter::default(), |flow| {
            found |= flow.reply.src == silent && flow.protocol == Protocol::Tcp.number();
            ControlFlow::Continue(())
        });
        listed.unwrap();
        found
    };
    assert!(wait_until(SOON, || stage.sandbox.node.run(is_recorded)), "no attempt was recorded");
}
