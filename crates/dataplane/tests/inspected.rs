//! What the kernel holds for an address is read back: damage to just that is shown, and nothing else is looked at.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::net::SocketAddr;

use common::{Fixture, MARK, ip, node, octets, pod_cidrs};
use dataplane::nftables::{Nftables, TABLE_NAME};
use dataplane::{Inquiry, Inspection, Reconciler};
use kernel::nft::TableFamily;
use model::{Client, Family, Protocol};
use simulate::nft::Simulator;

type Simulated = Reconciler<Nftables<Simulator>>;

fn synced() -> (Simulated, Fixture) {
    let fixture = Fixture::everything();
    let mut reconciler = Reconciler::new(Nftables::new(Simulator::new(), &pod_cidrs(), MARK));
    reconciler.sync_and_sweep(Family::V4, &[], &fixture).unwrap();
    (reconciler, fixture)
}

fn inspect(reconciler: &mut Simulated, fixture: &Fixture, to: &str) -> Inspection {
    let client = Client { ip: Some(ip("10.244.1.99")), is_node: false, is_pod: Some(true) };
    let to: SocketAddr = to.parse().unwrap();
    let inquiry = Inquiry::new(Protocol::Tcp, to, vec![client]);
    reconciler.explain(&inquiry, fixture, &node()).look.unwrap().finish().unwrap()
}

/// Address, protocol and port, each padded.
fn key(address: &str, port: u16) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    [&octets(ip(address))[..], &[6, 0, 0, 0, high, low, 0, 0]].concat()
}

#[test]
fn all_that_was_written_is_found() {
    let (mut reconciler, fixture) = synced();
    for last in 1..=8 {
        for to in [
            format!("10.96.0.{last}:80"),
            format!("10.96.0.{last}:81"),
            format!("198.51.100.{last}:80"),
            format!("203.0.113.{last}:80"),
        ] {
            let found = inspect(&mut reconciler, &fixture, &to);
            assert!(found.compared > 5 && found.differences.is_empty(), "{to}: {found:?}");
        }
    }
}

#[test]
fn what_another_process_took_away_or_put_there_is_shown() {
    let (mut reconciler, fixture) = synced();
    let slot = [key("10.96.0.1", 80), 0u32.to_ne_bytes().to_vec()].concat();
    let sets: [(&str, Vec<u8>, &str, &str); 4] = [
        ("endpoints", slot, "10.96.0.1:80", "{ 10.96.0.1 . tcp . 80 . 0 }"),
        ("service-ips", key("10.96.0.3", 80), "10.96.0.3:80", "{ 10.96.0.3 . tcp . 80 }"),
        ("no-endpoint-reject-ips", key("10.96.0.2", 80), "10.96.0.2:80", "{ 10.96.0.2 . tcp . 80 }"),
        ("firewalled-ips", key("203.0.113.7", 80), "203.0.113.7:80", "{ 203.0.113.7 . tcp . 80 }"),
    ];
    for (set, key, to, words) in sets {
        let transport = reconciler.backend().transport();
        assert!(transport.delete_element(TableFamily::Ip, TABLE_NAME, set, &key), "{set}");
        let found = inspect(&mut reconciler, &fixture, to);
        assert_eq!(found.differences.len(), 1, "{found:?}");
        let difference = &found.differences[0];
        assert_eq!(difference.place, format!("ip kube-proxy {set} {words}"));
        assert!(difference.found == "nothing" && difference.expected != "nothing", "{difference:?}");
    }
    let found = inspect(&mut reconciler, &fixture, "10.96.0.4:80");
    assert!(found.differences.is_empty(), "damage elsewhere does not concern it: {found:?}");
}
