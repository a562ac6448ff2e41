//! ClientIP affinity, packet by packet, in the interpreter.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::net::IpAddr;

use common::{Fixture, MARK, ip, pod_cidrs, service};
use dataplane::Reconciler;
use dataplane::nftables::{Nftables, TABLE_NAME};
use kernel::nft::{self, Batch, CommitError, ElementData, Layer, Transport};
use model::{Family, Service, ServiceKey, ServicePort, TrafficPolicy};
use simulate::nft::Simulator;
use simulate::{Host, Journey, Origin, Packet, Protocol, walk};

const PODS: [(&str, &str); 3] = [("10.244.1.11", "here"), ("10.244.1.12", "here"), ("10.244.2.21", "there")];
const ROOM_FOR_PINS: u32 = 65_536;
const SECONDS: u32 = 100;

fn sticky(endpoints: &[(&str, &'static str)]) -> Fixture {
    let mut fixture = Fixture::default();
    fixture.add("default/sticky", Service { affinity_seconds: Some(SECONDS), ..service(5) }, endpoints);
    fixture
}

fn programmed() -> Reconciler<Nftables<Simulator>> {
    let mut reconciler = Reconciler::new(Nftables::new(Simulator::new(), &pod_cidrs(), MARK));
    reconciler.sync(Family::V4, &[], &sticky(&PODS)).unwrap();
    reconciler
}

/// A first packet to the sticky service, with the given draw.
fn connect(simulator: &mut Simulator, client: IpAddr, draw: u32) -> Journey {
    let packet = Packet {
        protocol: Protocol::Tcp,
        source: client,
        source_port: 40_000,
        destination: ip("10.96.0.5"),
        destination_port: 80,
        mark: 0,
        origin: Origin::Interface("pod-a".into()),
    };
    walk(simulator, &Host::new([ip("192.168.50.2")]), packet, &mut |modulus| draw % modulus)
}

fn endpoint(journey: &Journey) -> Option<IpAddr> {
    journey.delivery().map(|delivery| delivery.to)
}

#[test]
fn a_client_stays_where_it_went_until_the_timeout() {
    let mut reconciler = programmed();
    let simulator = reconciler.backend().transport();
    let client = ip("10.244.1.99");
    let first = endpoint(&connect(simulator, client, 0)).unwrap();
    for draw in 0..6 {
        assert_eq!(endpoint(&connect(simulator, client, draw)), Some(first));
    }
    // Each use refreshes the pin; after the timeout without use the next draw counts.
    simulator.set_now(u64::from(SECONDS) * 900);
    assert_eq!(endpoint(&connect(simulator, client, 1)), Some(first));
    simulator.set_now(u64::from(SECONDS) * 1800);
    assert_eq!(endpoint(&connect(simulator, client, 1)), Some(first));
    simulator.set_now(u64::from(SECONDS) * 2900);
    assert_ne!(endpoint(&connect(simulator, client, 1)), Some(first));
}

#[test]
fn clients_go_unpinned_when_there_is_no_room_for_pins() {
    let mut reconciler = programmed();
    let simulator = reconciler.backend().transport();
    let mut batch = Batch::new(nft::TableFamily::Ip, TABLE_NAME);
    for number in 0..ROOM_FOR_PINS {
        let key = [&number.to_be_bytes()[..], &[10, 96, 0, 5, 6, 0, 0, 0, 0, 80, 0, 0]].concat();
        let data = ElementData::Value(&[10, 244, 1, 11, 0x1f, 0x90, 0, 0]);
        batch.add_timed_element("affinity", &key, data, 100_000, 100_000);
    }
    simulator.commit(&batch).unwrap();
    for draw in 0..3 {
        let journey = connect(simulator, ip("10.244.1.99"), draw);
        assert!(journey.delivery().is_some(), "{:?} in {:?}", journey.outcome, journey.ended);
    }
}

#[test]
fn a_pin_to_an_endpoint_that_is_gone_costs_one_packet_at_most() {
    let mut reconciler = programmed();
    let client = ip("10.244.1.99");
    let first = endpoint(&connect(reconciler.backend().transport(), client, 0)).unwrap();
    let rest: Vec<_> = PODS.into_iter().filter(|(address, _)| ip(address) != first).collect();
    reconciler.sync(Family::V4, &["default/sticky".into()], &sticky(&rest)).unwrap();
    let simulator = reconciler.backend().transport();
    let moved = endpoint(&connect(simulator, client, 0)).unwrap();
    assert_ne!(moved, first, "the sweep took the pin away");
    // What a packet writes between the commit and the sweep: the safety net drops one packet and unpins.
    let mut batch = Batch::new(nft::TableFamily::Ip, TABLE_NAME);
    let (key, data) = pin_of(98, first);
    batch.add_timed_element("affinity", &key, ElementData::Value(&data), 100_000, 100_000);
    simulator.commit(&batch).unwrap();
    assert_eq!(endpoint(&connect(simulator, ip("10.244.1.98"), 0)), None);
    assert!(endpoint(&connect(simulator, ip("10.244.1.98"), 0)).is_some());
}

fn pin_of(client: u8, endpoint: IpAddr) -> ([u8; 16], Vec<u8>) {
    let key = [10, 244, 1, client, 10, 96, 0, 5, 6, 0, 0, 0, 0, 80, 0, 0];
    (key, [&common::octets(endpoint)[..], &[0x1f, 0x90, 0, 0]].concat())
}

/// A kernel where a packet pins a client elsewhere between the reading of pins and the commit.
struct Racing {
    simulator: Simulator,
    packet: Option<Batch>,
    refused: usize,
}

impl Layer for Racing {
    type Inner = Simulator;

    fn inner(&mut self) -> &mut Simulator {
        &mut self.simulator
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), CommitError> {
        if let Some(packet) = self.packet.take() {
            self.simulator.commit(&packet)?;
        }
        let result = Transport::commit(&mut self.simulator, batch);
        self.refused += usize::from(result.is_err());
        result
    }
}

fn racing() -> (Reconciler<Nftables<Racing>>, [IpAddr; 2], Fixture) {
    let transport = Racing { simulator: Simulator::before_destroy(), packet: None, refused: 0 };
    let mut reconciler = Reconciler::new(Nftables::new(transport, &pod_cidrs(), MARK));
    reconciler.sync(Family::V4, &[], &sticky(&PODS)).unwrap();
    let simulator = &mut reconciler.backend().transport().simulator;
    let [gone, stays] = [0, 1].map(|draw| {
        let client = ip(&format!("10.244.1.{}", 98 + draw));
        endpoint(&connect(simulator, client, draw)).unwrap()
    });
    assert_ne!(gone, stays);
    let rest: Vec<_> = PODS.into_iter().filter(|(address, _)| ip(address) != gone).collect();
    (reconciler, [gone, stays], sticky(&rest))
}

#[test]
fn pins_of_a_gone_endpoint_go_in_the_same_transaction_on_old_kernels_too() {
    let (mut reconciler, _, fixture) = racing();
    let before = reconciler.backend().transport().simulator.generation_id();
    reconciler.sync(Family::V4, &["default/sticky".into()], &fixture).unwrap();
    let Racing { simulator, refused, .. } = reconciler.backend().transport();
    assert_eq!((simulator.generation_id() - before, *refused), (1, 0));
    assert_eq!(simulator.count(nft::TableFamily::Ip, TABLE_NAME, "affinity"), Some(1), "the other's pin");
}

#[test]
fn a_pin_that_a_packet_replaces_meanwhile_delays_no_change() {
    let (mut reconciler, [_, stays], fixture) = racing();
    let (key, data) = pin_of(98, stays);
    let mut packet = Batch::new(nft::TableFamily::Ip, TABLE_NAME);
    packet.delete_element("affinity", &key);
    packet.add_timed_element("affinity", &key, ElementData::Value(&data), 100_000, 100_000);
    reconciler.backend().transport().packet = Some(packet);
    let synced = reconciler.sync(Family::V4, &["default/sticky".into()], &fixture).unwrap();
    let Racing { simulator, refused, .. } = reconciler.backend().transport();
    assert!(!synced.full && *refused <= 1, "{refused} refused");
    assert_eq!(endpoint(&connect(simulator, ip("10.244.1.98"), 0)), Some(stays));
}

/// A pin made under policy Cluster may name an endpoint that is wrong for clients outside under policy Local.
#[test]
fn large_services_that_turn_local_stay_without_affinity_until_all_of_each_has_turned() {
    let large = |last: u8, external_policy| {
        let ports = (1..=900).map(|port| ServicePort {
            name: format!("p{port}").into(),
            protocol: model::Protocol::Tcp,
            port,
            node_port: None,
        });
        Service {
            ports: ports.collect(),
            external_ips: [ip(&format!("198.51.100.{last}"))].into(),
            affinity_seconds: Some(SECONDS),
            external_policy,
            ..service(last)
        }
    };
    let services = |policy| {
        let mut fixture = Fixture::default();
        fixture.add("default/one", large(1, policy), &PODS);
        fixture.add("default/two", large(2, policy), &PODS);
        fixture
    };
    let mut reconciler = Reconciler::new(Nftables::new(Simulator::new(), &pod_cidrs(), MARK));
    reconciler.sync(Family::V4, &[], &services(TrafficPolicy::Cluster)).unwrap();
    let local = services(TrafficPolicy::Local);
    let (mut waiting, mut swept, mut pieces) = (vec!["default/two", "default/one"], Vec::new(), 0);
    while let Some(name) = waiting.pop() {
        let synced = reconciler.sync_piece(Family::V4, &name.into(), &local).unwrap();
        let is_unfinished = !synced.unfinished.is_empty();
        let awaited: Vec<_> = synced.sweeps.into_iter().flat_map(|sweep| sweep.awaited_by).collect();
        assert_eq!(awaited.is_empty(), is_unfinished, "{name} after {pieces} pieces: {awaited:?}");
        swept.extend(awaited);
        if is_unfinished {
            waiting.insert(0, name);
        }
        pieces += 1;
        assert!(pieces < 1_000, "it never ends");
    }
    swept.sort();
    assert_eq!(swept, ["default/one".into(), "default/two".into()] as [ServiceKey; 2]);
    assert!(pieces > 4, "{pieces} pieces show nothing");
}
