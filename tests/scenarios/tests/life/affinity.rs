//! ClientIP affinity: how long a client stays with its endpoint, and that it leaves a gone one.
//!
//! Many clients are asked where one could be right by chance: with ten of them and five endpoints, that all
//! draw the same endpoint twice happens once in ten million.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use model::{Family, Protocol};
use serde_json::{Value, json};
use test_support::{Carrier, Case, ServiceManifest, let_pass, patient, wait_until};

use super::places::{PORT, at_cluster_ip, at_node_port, cluster_ip, external_ip};
use super::rig::every_mode;
use super::stage::{ENDPOINTS, From, POD_PORT, PROMPT, SOON, Stage};
use super::traffic;

pub(crate) const CLIENTS: u8 = 10;
const NODE_PORT: u16 = 30080;

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = every_mode("affinity lasts while used and ends when not", lifetime);
    cases.extend(every_mode("affinity outlives restarts, kills, changes and repairs", outlives));
    cases.extend(every_mode("a pin is explained, with the time that is left", explained));
    cases.extend(every_mode("clients of a gone endpoint move at once, tcp", |of| moves(of, Protocol::Tcp)));
    cases.extend(every_mode("clients of a gone endpoint move at once, udp", |of| moves(of, Protocol::Udp)));
    cases
}

pub(crate) fn pinned_service(protocol: Protocol, seconds: u64) -> ServiceManifest {
    ServiceManifest::new("web", &Family::BOTH.map(|family| cluster_ip(1, family)))
        .with("type", "NodePort")
        .with("sessionAffinity", "ClientIP")
        .with("sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": seconds}}))
        .external_ips(&Family::BOTH.map(external_ip))
        .port("main", protocol, PORT, NODE_PORT)
}

pub(crate) fn start_with(carrier: Carrier, protocol: Protocol, seconds: u64) -> Stage {
    let mut stage = Stage::of(carrier);
    Family::BOTH.into_iter().for_each(|family| stage.add_clients(family, CLIENTS));
    stage.folder.put_service(&pinned_service(protocol, seconds));
    stage.put_endpoints("web", protocol, &ENDPOINTS);
    stage.start_with(&[PROMPT]);
    stage
}

/// Where each client's next connection goes.
pub(crate) fn ask_all_of(stage: &Stage, protocol: Protocol, to: SocketAddr) -> Vec<String> {
    (0..CLIENTS).map(|client| stage.who(protocol, From::OutsideAs(client), to)).collect()
}

fn lifetime(carrier: Carrier) {
    let timeout = patient(Duration::from_secs(2));
    let stage = start_with(carrier, Protocol::Tcp, timeout.as_secs());
    for family in Family::BOTH {
        let to = at_cluster_ip(1, family);
        let (first, last_use) = use_for(&stage, to, timeout);
        if let Some(pins) = stage.rig().pins(&stage, family) {
            assert_eq!(pins, usize::from(CLIENTS));
            let gone = wait_until(SOON, || stage.rig().pins(&stage, family) == Some(0));
            assert!(gone, "pins never expire");
            assert!(last_use.elapsed() >= timeout, "gone after {:?}", last_use.elapsed());
        }
        let_pass(timeout + Duration::from_millis(500));
        // Where endpoints take turns, ten clients would meet the five of them in the same order again.
        stage.who(Protocol::Tcp, From::Guest, to);
        // A process leads whom it does not remember by the client's address, which is the same choice again.
        let chosen_again = carrier.is_a_process() || ask_all_of(&stage, Protocol::Tcp, to) != first;
        assert!(chosen_again, "{family}: clients do not choose again");
    }
}

/// In every mode but that whose pins are in the process: those are no concern of the kernel.
fn explained(carrier: Carrier) {
    const SECONDS: u64 = 500;
    let mut stage = start_with(carrier, Protocol::Tcp, SECONDS);
    for family in Family::BOTH {
        let to = at_cluster_ip(1, family);
        let client = From::OutsideAs(3).source(to).unwrap();
        let path = format!("/pointsman/v1/explain?to=tcp:{to}&from={client}");
        let pin = |stage: &mut Stage| {
            let page: Value = serde_json::from_str(&stage.agent().page(&path).unwrap()).unwrap();
            page["explanations"][0]["clients"][0]["pin"].clone()
        };
        assert!(pin(&mut stage).is_null(), "{family}: nobody has called");
        let asked = Instant::now();
        let by = stage.who(Protocol::Tcp, From::OutsideAs(3), to);
        let found = pin(&mut stage);
        if carrier.is_a_process() {
            continue;
        }
        let endpoint = SocketAddr::new(stage.address(&by, family), POD_PORT).to_string();
        assert_eq!(found["endpoint"].as_str(), Some(endpoint.as_str()), "{family}: {found}");
        let left = found["secondsLeft"].as_u64().unwrap_or_default();
        // The clock of mode iptables is right to about a second.
        let least = SECONDS - asked.elapsed().as_secs() - 3;
        assert!((least..=SECONDS).contains(&left), "{family}: {left} s are left, not {least} or more");
    }
}

/// Ask repeatedly, for twice the timeout in all, and each client within it; all must stay where they are. Where the
/// machine was too slow for that it begins again. Returns the answers, and when they were asked for the last time.
fn use_for(stage: &Stage, to: SocketAddr, timeout: Duration) -> (Vec<String>, Instant) {
    let deadline = Instant::now() + patient(2 * SOON);
    while Instant::now() < deadline {
        let started = Instant::now();
        let first = ask_all_of(stage, Protocol::Tcp, to);
        let mut last_round = started;
        loop {
            let_pass(timeout / 10);
            let round = Instant::now();
            let answers = ask_all_of(stage, Protocol::Tcp, to);
            if last_round.elapsed() >= timeout {
                break;
            }
            assert_eq!(answers, first, "after {:?}", started.elapsed());
            last_round = round;
            if started.elapsed() > 2 * timeout {
                return (first, round);
            }
        }
    }
    panic!("ten clients were never asked within {timeout:?}");
}

fn outlives(carrier: Carrier) {
    let mut stage = start_with(carrier, Protocol::Tcp, 10800);
    let destinations = |family: Family| {
        let external = SocketAddr::new(external_ip(family), PORT);
        [at_cluster_ip(1, family), at_node_port(NODE_PORT, family), external]
    };
    let all = Family::BOTH.map(destinations).concat();
    let first: Vec<_> = all.iter().map(|to| ask_all_of(&stage, Protocol::Tcp, *to)).collect();
    let assert_kept = |stage: &Stage, after: &str| {
        for (to, first) in all.iter().zip(&first) {
            assert_eq!(&ask_all_of(stage, Protocol::Tcp, *to), first, "{to} after {after}");
        }
    };
    assert_kept(&stage, "nothing");
    stage.restart(false);
    assert_kept(&stage, "SIGTERM and a restart");
    stage.restart(true);
    assert_kept(&stage, "SIGKILL and a restart");
    stage.folder.put_service(&stage.service("other", 9, Protocol::Tcp));
    stage.put_endpoints("other", Protocol::Tcp, &["a"]);
    stage.await_pools(9, &["a"]);
    assert_kept(&stage, "an unrelated change");
    // Damage in an unrelated place causes a full rewrite that keeps the pins.
    let whole = stage.rules();
    for family in Family::BOTH {
        (stage.rig().slight_damage(family).inflict)(&stage);
    }
    stage.await_rules(&whole, "never repaired");
    assert_kept(&stage, "a rewrite after damage");
}

/// At once: the first packet of a client that was still pinned to the gone endpoint would be lost. TCP would send
/// it again after a second, which the client's kernel counts; a datagram would never be answered.
fn moves(carrier: Carrier, protocol: Protocol) {
    let stage = start_with(carrier, protocol, 10800);
    let to = Family::BOTH.map(|family| [at_cluster_ip(1, family), at_node_port(NODE_PORT, family)]);
    for to in to.concat() {
        // An endpoint that comes back has none of its earlier clients.
        stage.put_endpoints("web", protocol, &ENDPOINTS);
        stage.await_pools(1, &ENDPOINTS);
        let first = ask_all_of(&stage, protocol, to);
        let gone = first[0].clone();
        let rest: Vec<&str> = ENDPOINTS.into_iter().filter(|pod| *pod != gone).collect();
        stage.put_endpoints("web", protocol, &rest);
        stage.await_pools(1, &rest);
        let sent_again = || traffic::sent_again(&stage.sandbox.client);
        let before = sent_again();
        for (client, pod) in (0..CLIENTS).zip(&first) {
            let outcome = stage.ask(protocol, From::OutsideAs(client), to);
            let by = outcome.by().unwrap_or_default();
            assert!(!by.is_empty() && *by != gone, "client {client} of {pod} to {to}: {outcome:?}");
            assert_eq!(sent_again(), before, "client {client} of {pod} to {to}, a lost packet: {outcome:?}");
            assert!(*pod == gone || *pod == by, "client {client} left the living {pod} for {by}");
        }
    }
    assert!(!stage.log().contains("Failed to write rules"), "{}", stage.log());
}
