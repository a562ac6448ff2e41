//! ClientIP affinity in our own maps: what policies change of it, and how many clients it has room for.

use std::net::SocketAddr;

use kernel::sysctl;
use model::{Family, Protocol};
use serde_json::Value;
use test_support::{Carrier, Case, wait_until};

use super::super::affinity::{CLIENTS, ask_all_of, pinned_service, start_with};
use super::super::case;
use super::super::nft;
use super::super::places::{PORT, at_cluster_ip, external_ip};
use super::super::stage::{SOON, Stage};

const MAPS: [&str; 2] = ["affinity", "nodeport-affinity"];

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("policy Local moves pinned outside clients to this node", policy_flip),
        case("as many clients may be pinned as connections be tracked, and they are counted", room_for_pins),
    ]
}

fn start() -> Stage {
    start_with(Carrier::Nftables, Protocol::Tcp, 10800)
}

fn ask_all(stage: &Stage, to: SocketAddr) -> Vec<String> {
    ask_all_of(stage, Protocol::Tcp, to)
}

fn policy_flip() {
    for family in Family::BOTH {
        let mut stage = start();
        let to = SocketAddr::new(external_ip(family), PORT);
        // Most of them on the other node, so that most clients have to move.
        stage.put_endpoints("web", Protocol::Tcp, &["a", "c", "d"]);
        stage.await_pool(1, family, &["a", "c", "d"]);
        let first = ask_all(&stage, to);
        let is_local = |pod: &String| pod == "a";
        assert!(!first.iter().all(is_local), "no client is pinned to the other node: {first:?}");
        let local = pinned_service(Protocol::Tcp, 10800).with("externalTrafficPolicy", "Local");
        stage.folder.put_service(&local);
        let word = nft::family_word(family);
        let element = format!("{{ {} . tcp . 80 }}", external_ip(family));
        let flipped =
            || nft::run(&stage.sandbox.node, &["get", "element", word, nft::TABLE, "local-ips", &element]);
        assert!(wait_until(SOON, || flipped().is_ok()), "{:?}", flipped());
        let after = ask_all(&stage, to);
        assert!(after.iter().all(is_local), "{family}: {after:?} of {first:?}");
        assert_eq!(ask_all(&stage, to), after, "{family}: pinned again");
        assert_eq!(stage.agent().probe("/healthz"), Some(200));
    }
}

/// However many clients one service has, those of others are pinned too.
fn room_for_pins() {
    let mut stage = start();
    let tracked = stage.sandbox.node.run(|| sysctl::read("net/netfilter/nf_conntrack_max")).unwrap();
    let room = tracked.parse::<u64>().unwrap().max(65_536);
    for (family, map) in Family::BOTH.into_iter().flat_map(|family| MAPS.map(|map| (family, map))) {
        let listing = ["-j", "list", "map", nft::family_word(family), nft::TABLE, map];
        let listing: Value = serde_json::from_str(&nft::run(&stage.sandbox.node, &listing).unwrap()).unwrap();
        let map = listing["nftables"].as_array().unwrap().iter().find_map(|item| item.get("map")).unwrap();
        assert_eq!(map["size"].as_u64(), Some(room), "{map}");
    }
    ask_all(&stage, at_cluster_ip(1, Family::V4));
    let page = stage.agent().metrics().unwrap();
    let value = |series: &str| page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let pins = |destination: &str| {
        value(&format!("pointsman_affinity_pins{{ip_family=\"IPv4\",destination=\"{destination}\"}}"))
    };
    let room = room.to_string();
    assert_eq!(pins("address"), Some(&*CLIENTS.to_string()), "{page}");
    assert_eq!((pins("nodeport"), value("pointsman_affinity_pins_limit")), (Some("0"), Some(&*room)));
}
