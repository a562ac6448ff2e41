//! ClientIP affinity through `recent`: it lasts over changes and restarts, ends with its time, and ends at once when the
//! endpoint goes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use model::{Family, Protocol};
use scenarios::{Carrier, Case, ServiceManifest, wait_until};
use serde_json::json;

use super::super::places::{PORT, at_cluster_ip, at_node_port, cluster_ip, external_ip};
use super::super::stage::{ENDPOINTS, From, PROMPT, SOON};
use super::super::traffic;
use super::both;
use super::rig::{Rig, await_that};

const CLIENTS: u8 = 10;
const NODE_PORT: u16 = 30080;

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = both("affinity outlives restarts, kills, changes and repairs", outlives);
    cases.extend(both("affinity ends when it is not used", ends));
    cases.extend(both("clients of a gone endpoint move at once", moves));
    cases
}

fn start(carrier: Carrier, seconds: u32) -> Rig {
    let mut rig = Rig::new(carrier);
    for family in Family::BOTH {
        rig.add_clients(family, CLIENTS);
    }
    let service = ServiceManifest::new("web", &Family::BOTH.map(|family| cluster_ip(1, family)))
        .with("type", "NodePort")
        .with("sessionAffinity", "ClientIP")
        .with("sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": seconds}}))
        .external_ips(&Family::BOTH.map(external_ip))
        .port("main", Protocol::Tcp, PORT, NODE_PORT);
    rig.folder.put_service(&service);
    rig.put_endpoints("web", Protocol::Tcp, &ENDPOINTS);
    rig.start(&[PROMPT]);
    rig
}

/// Where each client's next connection goes.
fn ask_all(rig: &Rig, to: SocketAddr) -> Vec<String> {
    (0..CLIENTS).map(|client| rig.who(Protocol::Tcp, From::OutsideAs(client), to)).collect()
}

fn destinations(family: Family) -> [SocketAddr; 3] {
    let external = SocketAddr::new(external_ip(family), PORT);
    [at_cluster_ip(1, family), at_node_port(NODE_PORT, family), external]
}

fn outlives(carrier: Carrier) {
    let mut rig = start(carrier, 10800);
    let all = Family::BOTH.map(destinations).concat();
    let first: Vec<_> = all.iter().map(|to| ask_all(&rig, *to)).collect();
    let assert_kept = |rig: &Rig, after: &str| {
        for (to, first) in all.iter().zip(&first) {
            assert_eq!(&ask_all(rig, *to), first, "{to} after {after}");
        }
    };
    assert_kept(&rig, "nothing");
    rig.restart(false);
    assert_kept(&rig, "SIGTERM and a restart");
    rig.restart(true);
    assert_kept(&rig, "SIGKILL and a restart");
    rig.folder.put_service(&rig.service("other", 9, Protocol::Tcp));
    rig.put_endpoints("other", Protocol::Tcp, &["a"]);
    rig.await_pods_of(9, &["a"]);
    assert_kept(&rig, "an unrelated change");
    // Another rule is damaged, and everything is rewritten.
    for family in Family::BOTH {
        rig.run(family, "-t filter -F KUBE-FORWARD");
    }
    let repaired = |family: Family| !rig.rules(family).chain("filter", "KUBE-FORWARD").is_empty();
    assert!(await_that(SOON, || Family::BOTH.into_iter().all(repaired)), "never repaired\n{}", rig.log());
    assert_kept(&rig, "a rewrite after damage");
}

fn ends(carrier: Carrier) {
    let timeout = Duration::from_secs(2);
    let rig = start(carrier, 2);
    for family in Family::BOTH {
        let to = at_cluster_ip(1, family);
        let first = ask_all(&rig, to);
        let started = Instant::now();
        // Used repeatedly for longer than the timeout.
        while started.elapsed() < timeout * 3 / 2 {
            let last_use = Instant::now();
            assert_eq!(ask_all(&rig, to), first, "{family} after {:?}", started.elapsed());
            assert!(wait_until(SOON, || last_use.elapsed() > timeout / 5));
        }
        let last_use = Instant::now();
        assert!(wait_until(SOON, || last_use.elapsed() > timeout + Duration::from_millis(500)));
        assert_ne!(ask_all(&rig, to), first, "{family}: clients choose again");
    }
}

/// A first packet to the gone endpoint would be lost, and sent again after a second, which the client's kernel counts.
fn moves(carrier: Carrier) {
    let rig = start(carrier, 10800);
    for family in Family::BOTH {
        let to = at_node_port(NODE_PORT, family);
        let first = ask_all(&rig, to);
        let gone = first[0].clone();
        let rest: Vec<&str> = ENDPOINTS.into_iter().filter(|pod| *pod != gone).collect();
        rig.put_endpoints("web", Protocol::Tcp, &rest);
        rig.await_pods_of(1, &rest);
        let before = traffic::sent_again(&rig.sandbox.client);
        for (client, pod) in (0..CLIENTS).zip(&first) {
            let by = rig.who(Protocol::Tcp, From::OutsideAs(client), to);
            assert!(by != gone, "client {client} is still at {gone}");
            assert!(*pod == gone || *pod == by, "client {client} left the living {pod} for {by}");
        }
        assert_eq!(traffic::sent_again(&rig.sandbox.client), before, "a lost packet");
        // An endpoint that comes back has none of its earlier clients.
        rig.put_endpoints("web", Protocol::Tcp, &ENDPOINTS);
        rig.await_pods_of(1, &ENDPOINTS);
    }
}
