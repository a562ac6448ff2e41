//! ClientIP affinity: how long a client stays with its endpoint, and how fast it leaves a gone one.
//!
//! Many clients are asked where one could be right by chance: with ten of them and five endpoints, that all
//! draw the same endpoint twice happens once in ten million.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use kernel::sysctl;
use model::{Family, Protocol};
use scenarios::{Case, ServiceManifest, wait_until};
use serde_json::{Value, json};

use super::case;
use super::nft;
use super::places::{at_cluster_ip, at_node_port, external_ip};
use super::stage::{ENDPOINTS, From, SOON, Stage, at_load};
use super::traffic;

const CLIENTS: u8 = 10;
const NODE_PORT: u16 = 30080;
const MAPS: [&str; 2] = ["affinity", "nodeport-affinity"];

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("affinity lasts while used and ends when not, ipv4", || lifetime(Family::V4)),
        case("affinity lasts while used and ends when not, ipv6", || lifetime(Family::V6)),
        case("affinity outlives restarts, kills and unrelated changes, ipv4", || outlives(Family::V4)),
        case("affinity outlives restarts, kills and unrelated changes, ipv6", || outlives(Family::V6)),
        case("clients of a gone endpoint move at once, tcp ipv4", || moves(Protocol::Tcp, Family::V4)),
        case("clients of a gone endpoint move at once, tcp ipv6", || moves(Protocol::Tcp, Family::V6)),
        case("clients of a gone endpoint move at once, udp ipv4", || moves(Protocol::Udp, Family::V4)),
        case("clients of a gone endpoint move at once, udp ipv6", || moves(Protocol::Udp, Family::V6)),
        case("policy Local moves pinned outside clients to this node", policy_flip),
        case("as many clients may be pinned as connections be tracked, and they are counted", room_for_pins),
    ]
}

fn pinned_service(protocol: Protocol, seconds: u32) -> ServiceManifest {
    let ips = Family::BOTH.map(|family| at_cluster_ip(1, family).ip());
    ServiceManifest::new("web", &ips)
        .with("type", "NodePort")
        .with("sessionAffinity", "ClientIP")
        .with("sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": seconds}}))
        .external_ips(&Family::BOTH.map(external_ip))
        .port("main", protocol, super::places::PORT, NODE_PORT)
}

fn start(protocol: Protocol, family: Family, seconds: u32) -> Stage {
    let mut stage = Stage::new();
    stage.add_clients(family, CLIENTS);
    stage.folder.put_service(&pinned_service(protocol, seconds));
    stage.put_endpoints("web", protocol, &ENDPOINTS);
    stage.start();
    stage
}

/// Where each client's next connection goes.
fn ask_all(stage: &Stage, protocol: Protocol, to: SocketAddr) -> Vec<String> {
    (0..CLIENTS).map(|client| stage.who(protocol, From::OutsideAs(client), to)).collect()
}

fn pins(stage: &Stage, family: Family, map: &str) -> usize {
    nft::elements(&stage.sandbox.node, family, map).map_or(0, |pins| pins.len())
}

fn lifetime(family: Family) {
    let timeout = Duration::from_secs(2);
    let stage = start(Protocol::Tcp, family, 2);
    let to = at_cluster_ip(1, family);
    let first = ask_all(&stage, Protocol::Tcp, to);
    let started = Instant::now();
    let mut last_use = started;
    // Used repeatedly for far longer than the timeout.
    while started.elapsed() < 2 * timeout {
        last_use = Instant::now();
        assert_eq!(ask_all(&stage, Protocol::Tcp, to), first, "after {:?}", started.elapsed());
        assert!(wait_until(SOON, || last_use.elapsed() > timeout / 5));
    }
    assert_eq!(pins(&stage, family, "affinity"), usize::from(CLIENTS));
    assert!(wait_until(SOON, || pins(&stage, family, "affinity") == 0), "pins never expire");
    let lived = last_use.elapsed();
    println!("affinity of 2 s, {family}: gone {lived:?} after the last use");
    assert!(lived >= timeout && lived < at_load(timeout * 2), "gone after {lived:?}");
    assert_ne!(ask_all(&stage, Protocol::Tcp, to), first, "clients choose again");
}

fn outlives(family: Family) {
    let mut stage = start(Protocol::Tcp, family, 10800);
    let destinations =
        [at_cluster_ip(1, family), at_node_port(NODE_PORT, family), SocketAddr::new(external_ip(family), 80)];
    let first: Vec<_> = destinations.iter().map(|to| ask_all(&stage, Protocol::Tcp, *to)).collect();
    let assert_kept = |stage: &Stage, after: &str| {
        for (to, first) in destinations.iter().zip(&first) {
            assert_eq!(&ask_all(stage, Protocol::Tcp, *to), first, "{to} after {after}");
        }
    };
    assert_kept(&stage, "nothing");
    stage.restart(false);
    assert_kept(&stage, "SIGTERM and a restart");
    stage.restart(true);
    assert_kept(&stage, "SIGKILL and a restart");
    stage.folder.put_service(&stage.service("other", 9, Protocol::Tcp));
    stage.put_endpoints("other", Protocol::Tcp, &["a"]);
    stage.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(9, family), "a");
    assert_kept(&stage, "an unrelated change");
    // Damage in an unrelated place causes a full rewrite that keeps the pins.
    let set = ["flush", "set", nft::family_word(family), nft::TABLE, "cluster-ips"];
    nft::run(&stage.sandbox.node, &set).unwrap();
    let repaired =
        || nft::elements(&stage.sandbox.node, family, "cluster-ips").is_some_and(|ips| ips.len() == 2);
    assert!(wait_until(SOON, repaired), "never repaired\n{}", stage.log());
    assert_kept(&stage, "a rewrite after damage");
}

/// At once: the first packet of a client that was still pinned to the gone endpoint would be lost. TCP would send
/// it again after a second, which the client's kernel counts; a datagram would never be answered.
fn moves(protocol: Protocol, family: Family) {
    let stage = start(protocol, family, 10800);
    for to in [at_cluster_ip(1, family), at_node_port(NODE_PORT, family)] {
        stage.put_endpoints("web", protocol, &ENDPOINTS);
        stage.await_pool(1, family, &ENDPOINTS);
        let first = ask_all(&stage, protocol, to);
        let gone = first[0].clone();
        let rest: Vec<&str> = ENDPOINTS.into_iter().filter(|pod| *pod != gone).collect();
        stage.put_endpoints("web", protocol, &rest);
        stage.await_pool(1, family, &rest);
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
}

fn policy_flip() {
    for family in Family::BOTH {
        let mut stage = start(Protocol::Tcp, family, 10800);
        let to = SocketAddr::new(external_ip(family), super::places::PORT);
        // Most of them on the other node, so that most clients have to move.
        stage.put_endpoints("web", Protocol::Tcp, &["a", "c", "d"]);
        stage.await_pool(1, family, &["a", "c", "d"]);
        let first = ask_all(&stage, Protocol::Tcp, to);
        let is_local = |pod: &String| pod == "a";
        assert!(!first.iter().all(is_local), "no client is pinned to the other node: {first:?}");
        let local = pinned_service(Protocol::Tcp, 10800).with("externalTrafficPolicy", "Local");
        stage.folder.put_service(&local);
        let word = nft::family_word(family);
        let element = format!("{{ {} . tcp . 80 }}", external_ip(family));
        let flipped =
            || nft::run(&stage.sandbox.node, &["get", "element", word, nft::TABLE, "local-ips", &element]);
        assert!(wait_until(SOON, || flipped().is_ok()), "{:?}", flipped());
        let after = ask_all(&stage, Protocol::Tcp, to);
        assert!(after.iter().all(is_local), "{family}: {after:?} of {first:?}");
        assert_eq!(ask_all(&stage, Protocol::Tcp, to), after, "{family}: pinned again");
        assert_eq!(stage.agent().probe("/healthz"), Some(200));
    }
}

/// However many clients one service has, those of others are pinned too.
fn room_for_pins() {
    let mut stage = start(Protocol::Tcp, Family::V4, 10800);
    let tracked = stage.sandbox.node.run(|| sysctl::read("net/netfilter/nf_conntrack_max")).unwrap();
    let room = tracked.parse::<u64>().unwrap().max(65_536);
    for (family, map) in Family::BOTH.into_iter().flat_map(|family| MAPS.map(|map| (family, map))) {
        let listing = ["-j", "list", "map", nft::family_word(family), nft::TABLE, map];
        let listing: Value = serde_json::from_str(&nft::run(&stage.sandbox.node, &listing).unwrap()).unwrap();
        let map = listing["nftables"].as_array().unwrap().iter().find_map(|item| item.get("map")).unwrap();
        assert_eq!(map["size"].as_u64(), Some(room), "{map}");
    }
    ask_all(&stage, Protocol::Tcp, at_cluster_ip(1, Family::V4));
    let page = stage.agent().metrics().unwrap();
    let value = |series: &str| page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let pins = |destination: &str| {
        value(&format!("pointsman_affinity_pins{{ip_family=\"IPv4\",destination=\"{destination}\"}}"))
    };
    // Before Linux 6.16 the kernel does not say how many there are.
    if kernel_release() < (6, 16) {
        return assert_eq!(pins("address"), None);
    }
    let room = room.to_string();
    assert_eq!(pins("address"), Some(&*CLIENTS.to_string()), "{page}");
    assert_eq!((pins("nodeport"), value("pointsman_affinity_pins_limit")), (Some("0"), Some(&*room)));
}

fn kernel_release() -> (u32, u32) {
    let text = sysctl::read("kernel/osrelease").unwrap();
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}
