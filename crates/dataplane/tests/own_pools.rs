//! Ports with many addresses or endpoints have a pool of their own; and what comes on demand goes when it is unused.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::net::{IpAddr, Ipv4Addr};

use common::{Fixture, MARK, in_namespace, ip, pod_cidrs, service};
use dataplane::nftables::{Nftables, TABLE_NAME};
use dataplane::{Reconciler, Synced};
use kernel::nft::{self, Transport};
use model::{Family, Service, ServiceKey, TrafficPolicy};
use simulate::nft::Simulator;
use simulate::{Host, Origin, Packet, Protocol, walk};

type Simulated = Reconciler<Nftables<Simulator>>;

fn reconciler() -> Simulated {
    Reconciler::new(Nftables::new(Simulator::new(), &pod_cidrs(), MARK))
}

fn sync(reconciler: &mut Simulated, fixture: &Fixture, dirty: &[&str]) -> Synced {
    let dirty: Vec<ServiceKey> = dirty.iter().map(|name| (*name).into()).collect();
    reconciler.sync_and_sweep(Family::V4, &dirty, fixture).unwrap()
}

fn address(base: [u8; 2], number: usize) -> String {
    Ipv4Addr::new(base[0], base[1], (number / 250) as u8, (number % 250) as u8 + 1).to_string()
}

/// A service with so many external addresses and endpoints, every second of which is on this node.
fn wide(changed: Service, addresses: usize, endpoints: impl Iterator<Item = usize>) -> Fixture {
    let external: Vec<IpAddr> = (0..addresses).map(|number| ip(&address([198, 51], number))).collect();
    let pods: Vec<String> = endpoints.map(|number| address([10, 244], number)).collect();
    let pods: Vec<(&str, &'static str)> =
        pods.iter().enumerate().map(|(at, pod)| (&**pod, ["here", "there"][at % 2])).collect();
    let mut fixture = Fixture::default();
    fixture.add("default/wide", Service { external_ips: external.into(), ..changed }, &pods);
    fixture.add("default/plain", service(9), &pods[..2]);
    fixture
}

/// Where a connection to the last external address goes, with this draw.
fn connect(reconciler: &mut Simulated, to: IpAddr, client: &str, draw: u32) -> Option<IpAddr> {
    let packet = Packet {
        protocol: Protocol::Tcp,
        source: ip(client),
        source_port: 40_000,
        destination: to,
        destination_port: 80,
        mark: 0,
        origin: Origin::Interface("eth0".into()),
    };
    let simulator = reconciler.backend().transport();
    let journey = walk(simulator, &Host::new([ip("192.168.50.2")]), packet, &mut |modulus| draw % modulus);
    journey.delivery().map(|delivery| delivery.to)
}

fn sets(reconciler: &mut Simulated) -> Vec<String> {
    reconciler.backend().transport().sets(nft::TableFamily::Ip, TABLE_NAME).unwrap()
}

fn chains(reconciler: &mut Simulated) -> Vec<String> {
    reconciler.backend().transport().chains(nft::TableFamily::Ip, TABLE_NAME).unwrap()
}

#[test]
fn elements_are_addresses_and_endpoints_not_their_product() {
    let mut reconciler = reconciler();
    sync(&mut reconciler, &wide(service(1), 500, 0..1000), &[]);
    let programmed = reconciler.programmed(Family::V4).unwrap();
    assert!(programmed.elements < 4 * (500 + 1000), "{programmed:?}");
    // One endpoint more, one less, one replaced: a few elements, whatever the addresses.
    for endpoints in [1001, 1000] {
        let synced = sync(&mut reconciler, &wide(service(1), 500, 0..endpoints), &["default/wide"]);
        assert!(!synced.full && synced.committed.bytes < 4096, "{}", synced.committed.bytes);
    }
    let replaced = (0..1000).map(|number| if number == 500 { 2000 } else { number });
    let synced = sync(&mut reconciler, &wide(service(1), 500, replaced), &["default/wide"]);
    assert!(synced.committed.bytes < 4096, "{}", synced.committed.bytes);
    assert_eq!(
        connect(&mut reconciler, ip(&address([198, 51], 499)), "192.168.60.9", 500),
        Some(ip(&address([10, 244], 2000)))
    );
}

#[test]
fn every_way_into_a_pool_of_its_own_leads_there() {
    for (policy, affinity) in [
        (TrafficPolicy::Cluster, None),
        (TrafficPolicy::Local, None),
        (TrafficPolicy::Cluster, Some(100)),
        (TrafficPolicy::Local, Some(100)),
    ] {
        let mut reconciler = reconciler();
        let mut of = Service { external_policy: policy, affinity_seconds: affinity, ..service(1) };
        of.ports[0].node_port = std::num::NonZeroU16::new(30_080);
        sync(&mut reconciler, &wide(of, 20, 0..300), &[]);
        let external = ip(&address([198, 51], 7));
        let here = |number: usize| ip(&address([10, 244], number));
        let outside = connect(&mut reconciler, external, "192.168.60.9", 3);
        // Every second endpoint is here, and only those serve clients outside under policy Local.
        let wanted = if policy == TrafficPolicy::Local { here(6) } else { here(3) };
        assert_eq!(outside, Some(wanted), "{policy:?} {affinity:?}");
        assert_eq!(
            connect(&mut reconciler, external, "10.244.200.7", 5),
            Some(here(5)),
            "a pod goes anywhere"
        );
        assert_eq!(connect(&mut reconciler, ip("10.96.0.1"), "10.244.200.8", 7), Some(here(7)));
        let again = connect(&mut reconciler, external, "192.168.60.9", 4);
        assert_eq!(again == outside, affinity.is_some(), "pinned if it is to be: {policy:?} {affinity:?}");
    }
}

#[test]
fn a_pin_to_an_endpoint_that_left_its_own_pool_goes_in_the_same_transaction() {
    let mut reconciler = reconciler();
    let of = || Service { affinity_seconds: Some(100), ..service(1) };
    sync(&mut reconciler, &wide(of(), 20, 0..300), &[]);
    let external = ip(&address([198, 51], 7));
    for (client, draw) in [("192.168.60.9", 3), ("192.168.60.10", 4)] {
        assert_eq!(
            connect(&mut reconciler, external, client, draw),
            Some(ip(&address([10, 244], draw as usize)))
        );
    }
    // No sweep: the transaction that takes the endpoint takes the pin.
    let left = wide(of(), 20, (0..300).filter(|number| *number != 3));
    reconciler.sync(Family::V4, &["default/wide".into()], &left).unwrap();
    let moved = connect(&mut reconciler, external, "192.168.60.9", 8);
    assert!(moved.is_some() && moved != Some(ip(&address([10, 244], 3))), "{moved:?}");
    assert_eq!(
        connect(&mut reconciler, external, "192.168.60.10", 8),
        Some(ip(&address([10, 244], 4))),
        "stays"
    );
}

#[test]
fn a_pool_moves_into_its_own_map_and_back() {
    let mut reconciler = reconciler();
    for endpoints in [3, 300, 299, 301, 3, 0, 300] {
        let fixture = wide(service(1), 3, 0..endpoints.max(2));
        sync(&mut reconciler, &fixture, &["default/wide"]);
        let mut fresh = self::reconciler();
        sync(&mut fresh, &fixture, &[]);
        assert_eq!(reconciler.programmed(Family::V4), fresh.programmed(Family::V4), "{endpoints} endpoints");
        let last = endpoints.max(2) - 1;
        let reached = connect(&mut reconciler, ip("10.96.0.1"), "10.244.200.8", last as u32);
        assert!(reached.is_some(), "{endpoints} endpoints");
    }
    assert_eq!(sets(&mut reconciler).iter().filter(|set| set.starts_with("pool-")).count(), 1);
}

fn timeouts(seconds: impl Iterator<Item = u32>) -> Fixture {
    let mut fixture = Fixture::default();
    for (number, seconds) in seconds.enumerate() {
        let of = Service {
            cluster_ips: [ip(&address([10, 96], number))].into(),
            affinity_seconds: Some(seconds),
            ..service(1)
        };
        fixture.add(&format!("default/s{number}"), of, &[("10.244.1.11", "here")]);
    }
    fixture
}

#[test]
fn timeouts_cost_a_bounded_number_of_chains_and_go_with_their_services() {
    let mut reconciler = reconciler();
    sync(&mut reconciler, &timeouts([100].into_iter()), &[]);
    let (few_chains, few_sets) = (chains(&mut reconciler).len(), sets(&mut reconciler).len());
    let many = timeouts((0..1200).map(|number| number * 67 + 1));
    let names: Vec<String> = (0..1200).map(|number| format!("default/s{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    sync(&mut reconciler, &many, &names);
    let added = chains(&mut reconciler).len() - few_chains;
    assert!(added <= 4 * 410, "{added} chains for 1200 timeouts");
    assert_eq!(sets(&mut reconciler).len(), few_sets, "no set for a timeout");
    sync(&mut reconciler, &timeouts([100].into_iter()), &names);
    let left = chains(&mut reconciler).len() - few_chains;
    assert!(left <= 4 * 32, "{left} chains that nobody uses");
}

#[test]
fn sizes_of_pools_that_nobody_has_any_more_are_collected() {
    let mut reconciler = reconciler();
    let before = {
        sync(&mut reconciler, &wide(service(1), 1, 0..2), &[]);
        chains(&mut reconciler).len()
    };
    for endpoints in 2..250 {
        sync(&mut reconciler, &wide(service(1), 1, 0..endpoints), &["default/wide"]);
    }
    let after = chains(&mut reconciler).len();
    assert!(after - before <= 40, "{} chains more", after - before);
    assert!(connect(&mut reconciler, ip("10.96.0.1"), "10.244.200.8", 248).is_some());
}

#[test]
fn the_kernel_takes_pools_of_their_own_and_says_how_many_pins_there_are() {
    in_namespace(|mut reconciler| {
        let mut of =
            Service { external_policy: TrafficPolicy::Local, affinity_seconds: Some(100), ..service(1) };
        of.ports[0].node_port = std::num::NonZeroU16::new(30_080);
        reconciler.sync(Family::V4, &[], &wide(of.clone(), 20, 0..300)).unwrap();
        for endpoints in [301, 299, 3, 400, 2] {
            let fixture = wide(of.clone(), 20, 0..endpoints);
            reconciler.sync_and_sweep(Family::V4, &["default/wide".into()], &fixture).unwrap();
            let mut fresh = Reconciler::new(Nftables::new(Simulator::new(), &pod_cidrs(), MARK));
            fresh.sync(Family::V4, &[], &fixture).unwrap();
            assert_eq!(
                reconciler.programmed(Family::V4),
                fresh.programmed(Family::V4),
                "{endpoints} endpoints"
            );
        }
        let transport = reconciler.backend().transport();
        let size = transport.set_size(nft::TableFamily::Ip, TABLE_NAME, "endpoints", usize::MAX).unwrap();
        assert!(size > 20, "{size}");
        reconciler.distrust(Family::V4);
        reconciler.sync(Family::V4, &[], &wide(of, 20, 0..300)).unwrap();
    });
}
