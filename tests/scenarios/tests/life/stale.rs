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
use test_support::{Carrier, Case, ServiceManifest, patient, wait_until};

use super::nft;
use super::places::{PORT, at_cluster_ip, at_node_port, cluster_ip, external_ip};
use super::rig::every_mode;
use super::stage::{From, PROMPT, SOON, Stage, answer};

const NODE_PORT: u16 = 30053;
/// The answer of a datagram that arrives comes in less, most of the time; silence counts only if it lasts.
const SILENCE: Duration = Duration::from_millis(100);
const LASTING_SILENCE: Duration = Duration::from_secs(2);

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = every_mode("a UDP flow leaves a removed endpoint", udp_moves);
    cases.extend(every_mode("a UDP flow from before the first endpoint finds it", udp_before_endpoints));
    cases.extend(every_mode("a UDP flow ends with its service, external IP or last endpoint", udp_ends));
    cases.extend(every_mode("UDP flows to living endpoints stay over changes and restarts", udp_stays));
    cases.extend(every_mode("a half-open TCP connection leaves a removed endpoint", half_open));
    cases
}

fn dns() -> ServiceManifest {
    ServiceManifest::new("dns", &Family::BOTH.map(|family| cluster_ip(1, family)))
        .with("type", "NodePort")
        .external_ips(&Family::BOTH.map(external_ip))
        .port("main", Protocol::Udp, PORT, NODE_PORT)
}

fn start(carrier: Carrier, pods: &[&str]) -> Stage {
    let mut stage = Stage::of(carrier);
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

/// Ask until this pod answers, or none does. Every question refreshes the flow's record.
fn ask_until(stage: &Stage, flow: &(String, UdpFlow), by: Option<&str>) {
    let (what, flow) = flow;
    let mut last = Outcome::Closed;
    let came = wait_until(SOON, || {
        last = flow.ask(patient(SILENCE));
        if by.is_none() && last.by().is_none() {
            last = flow.ask(patient(LASTING_SILENCE));
        }
        last.by() == by
    });
    assert!(came, "{what}: {last:?}, not {by:?}\n{}", stage.log());
}

fn ask_all_until(stage: &Stage, flows: &[(String, UdpFlow)], by: Option<&str>) {
    flows.iter().for_each(|flow| ask_until(stage, flow, by));
}

fn udp_moves(carrier: Carrier) {
    let mut stage = start(carrier, &["a"]);
    let flows = open_all(&stage);
    ask_all_until(&stage, &flows, Some("a"));
    let changed = Instant::now();
    stage.put_endpoints("dns", Protocol::Udp, &["b"]);
    ask_all_until(&stage, &flows, Some("b"));
    println!("{}: {} UDP flows moved within {:?}", carrier.name(), flows.len(), changed.elapsed());
    stage.restart(false);
    for (what, flow) in &flows {
        assert_eq!(flow.ask(answer()).by(), Some("b"), "{what} after a restart");
    }
}

fn udp_before_endpoints(carrier: Carrier) {
    let stage = start(carrier, &[]);
    let flows = open_all(&stage);
    for (what, flow) in &flows {
        assert_eq!(flow.ask(SILENCE).by(), None, "{what}");
    }
    stage.put_endpoints("dns", Protocol::Udp, &["a"]);
    ask_all_until(&stage, &flows, Some("a"));
}

/// The old endpoint lives on and would answer.
fn udp_ends(carrier: Carrier) {
    for what in ["service", "external IP", "last endpoint"] {
        let stage = start(carrier, &["a"]);
        let flows = open_all(&stage);
        ask_all_until(&stage, &flows, Some("a"));
        match what {
            "service" => stage.folder.remove("service-dns"),
            "external IP" => stage.folder.put_service(&dns().external_ips(&[])),
            _ => stage.put_endpoints("dns", Protocol::Udp, &[]),
        }
        let is_concerned = |name: &str| {
            what != "external IP"
                || Family::BOTH.map(external_ip).iter().any(|ip| name.contains(&ip.to_string()))
        };
        let (ended, others): (Vec<_>, Vec<_>) = flows.into_iter().partition(|(name, _)| is_concerned(name));
        ask_all_until(&stage, &ended, None);
        for (name, flow) in &others {
            assert_eq!(flow.ask(answer()).by(), Some("a"), "{name}: {what}");
        }
        for (name, flow) in &ended {
            assert_eq!(flow.ask(SILENCE).by(), None, "{name}: {what}");
        }
    }
}

fn udp_stays(carrier: Carrier) {
    let mut stage = start(carrier, &["a", "b", "c"]);
    let flows: Vec<_> = (0..4).flat_map(|_| open_all(&stage)).collect();
    let by = |flow: &UdpFlow| flow.ask(answer()).by().map(str::to_owned);
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
    // A process carries them to its end.
    if !carrier.is_a_process() {
        stage.restart(false);
        assert_kept("SIGTERM and a restart", "");
        stage.restart(true);
        assert_kept("SIGKILL and a restart", "");
    }
    (stage.rig().slight_damage(Family::V4).inflict)(&stage);
    stage.put_endpoints("dns", Protocol::Udp, &["a", "b", "d", "e"]);
    for family in Family::BOTH {
        stage.await_answer(Protocol::Udp, From::Guest, at_cluster_ip(1, family), "e");
    }
    // Those of `c` moved, which shows that the flows were looked at.
    for ((what, flow), _) in flows.iter().zip(&first).filter(|(_, pod)| *pod == "c") {
        let moved = || flow.ask(SILENCE).by().is_some_and(|by| by != "c");
        assert!(wait_until(SOON, moved), "{what} is still at c\n{}", stage.log());
    }
    assert_kept("the removal of another endpoint", "c");
}

/// The endpoint swallows every packet. Its removal must reach the connection: TCP tries again, and would go on to try
/// the old endpoint for as long as the kernel remembers the first attempt, which each of them prolongs.
fn half_open(carrier: Carrier) {
    for family in Family::BOTH {
        let mut stage = Stage::of(carrier);
        stage.folder.put_service(&stage.service("web", 1, Protocol::Tcp));
        stage.put_endpoints("web", Protocol::Tcp, &["a"]);
        nft::load(
            &stage.sandbox.pod("a").unwrap().namespace,
            "table inet silence { chain input { type filter hook input priority 0; meta l4proto tcp drop; }; }",
        );
        stage.start_with(&[PROMPT]);
        let to = at_cluster_ip(1, family);
        for (from, seen) in [(From::Guest, "guest"), (From::Outside, "outside")] {
            stage.put_endpoints("web", Protocol::Tcp, &["a"]);
            // Where a process takes connections, they are open before the endpoint answers.
            match carrier.is_a_process() {
                true => assert!(wait_until(SOON, || !stage.answers(From::Guest, to))),
                false => stage.await_pool(1, family, &["a"]),
            }
            let namespace = stage.namespace(from).try_clone().unwrap();
            let asking = std::thread::spawn(move || Hold::open(&namespace, None, to, patient(SOON)));
            await_flow(&stage, family);
            stage.put_endpoints("web", Protocol::Tcp, &["b"]);
            let hold = asking.join().unwrap();
            let hold =
                hold.unwrap_or_else(|outcome| panic!("{seen}, {family}: {outcome:?}\n{}", stage.log()));
            assert_eq!(hold.by(), "b");
            let took = hold.opened().took().unwrap_or_default();
            println!("{}: half-open connection of {seen}, {family}: moved after {took:?}", carrier.name());
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
