//! Packets that rules refuse are counted by the reason that an explanation gives.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

mod common;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use common::{Fixture, MARK, in_namespace, ip, node, pod_cidrs};
use dataplane::nftables::{Nftables, TABLE_NAME};
use dataplane::{Inquiry, Reconciler};
use kernel::nft::{TableFamily, Transport};
use model::{Client, Family, Fate};
use simulate::nft::Simulator;
use simulate::{Host, Origin, Packet, Protocol, walk};

type Simulated = Reconciler<Nftables<Simulator>>;

const OUTSIDE: &str = "198.18.0.1";

fn counts<T: Transport>(transport: &mut T) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    transport
        .counters(TableFamily::Ip, TABLE_NAME, &mut |counter| {
            found.insert(counter.name.to_owned(), counter.packets);
        })
        .unwrap();
    found
}

fn send(reconciler: &mut Simulated, to: SocketAddr) {
    let packet = Packet {
        protocol: Protocol::Tcp,
        source: ip(OUTSIDE),
        source_port: 40_000,
        destination: to.ip(),
        destination_port: to.port(),
        mark: 0,
        origin: Origin::Interface("eth0".into()),
    };
    walk(reconciler.backend().transport(), &Host::new([ip("192.168.50.2")]), packet, &mut |_| 0);
}

#[test]
fn each_refused_packet_is_counted_once_by_its_reason_and_counts_outlive_rewrites() {
    let fixture = Fixture::everything();
    let mut reconciler = Reconciler::new(Nftables::new(Simulator::new(), &pod_cidrs(), MARK));
    reconciler.sync(Family::V4, &[], &fixture).unwrap();
    let cases = [
        ("10.96.0.2:80", "rejected-no-endpoints"),
        ("192.168.50.2:30083", "dropped-no-local-endpoints"),
        ("198.51.100.6:80", "dropped-no-local-endpoints"),
        ("203.0.113.7:80", "dropped-source-range"),
        ("10.96.0.1:81", "rejected-unlisted-port"),
        ("10.96.77.1:80", "dropped-unallocated-address"),
        ("10.96.0.1:80", ""),
    ];
    for (to, counter) in cases {
        let to: SocketAddr = to.parse().unwrap();
        let mut wanted = counts(reconciler.backend().transport());
        assert_eq!(wanted.len(), 5);
        if !counter.is_empty() {
            *wanted.get_mut(counter).unwrap() += 1;
        }
        send(&mut reconciler, to);
        assert_eq!(counts(reconciler.backend().transport()), wanted, "{to}");
        let client = Client { ip: Some(ip(OUTSIDE)), is_node: false, is_pod: Some(false) };
        let inquiry = Inquiry::new(model::Protocol::Tcp, to, vec![client]);
        let said = match reconciler.explain(&inquiry, &fixture, &node()).answers[0].fate {
            Fate::Reject(why) => format!("rejected-{}", why.word().replace('_', "-")),
            Fate::Drop(why) => format!("dropped-{}", why.word().replace('_', "-")),
            _ => String::new(),
        };
        assert_eq!(said, counter, "{to}");
    }
    let before = counts(reconciler.backend().transport());
    reconciler.distrust(Family::V4);
    reconciler.sync(Family::V4, &[], &fixture).unwrap();
    assert_eq!(counts(reconciler.backend().transport()), before);
}

#[test]
fn the_kernel_takes_the_counters_and_is_asked_for_one() {
    in_namespace(|mut reconciler| {
        let fixture = Fixture::everything();
        reconciler.sync(Family::V4, &[], &fixture).unwrap();
        reconciler.distrust(Family::V4);
        reconciler.sync(Family::V4, &[], &fixture).unwrap();
        let transport = reconciler.backend().transport();
        assert_eq!(counts(transport).len(), 5);
        let mut count = |name| transport.packets_counted(TableFamily::Ip, TABLE_NAME, name).unwrap();
        assert_eq!((count("dropped-source-range"), count("nothing")), (Some(0), None));
    });
}
