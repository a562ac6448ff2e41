//! The proxy's table in miniature, written as batches: what the dataplane makes of a few services.

use std::net::Ipv4Addr;

use kernel::nft::*;

use super::rules::{filter_rules, nat_rules};
use crate::nft::Simulator;
use crate::{Host, Origin, Packet, Protocol};

pub(super) const TABLE: &str = "kube-proxy";
pub(super) const NODE: [u8; 4] = [192, 168, 50, 2];
pub(super) const POD: [u8; 4] = [10, 244, 1, 11];
pub(super) const OTHER_POD: [u8; 4] = [10, 244, 1, 12];
pub(super) const OUTSIDE: [u8; 4] = [192, 168, 60, 9];
/// A plain service: port 80, two endpoints.
pub(super) const WEB: [u8; 4] = [10, 96, 0, 1];
/// With ClientIP affinity, timeout 3 s, two endpoints.
pub(super) const STICKY: [u8; 4] = [10, 96, 0, 2];
/// Without endpoints.
pub(super) const EMPTY: [u8; 4] = [10, 96, 0, 3];
/// A load balancer's address, open to 192.168.50.0/24 only.
pub(super) const GUARDED: [u8; 4] = [203, 0, 113, 1];
/// An address with policy Local and no endpoint here.
pub(super) const NOT_HERE: [u8; 4] = [203, 0, 113, 2];
pub(super) const NODE_PORT: u16 = 30080;
pub(super) const EMPTY_NODE_PORT: u16 = 30083;
pub(super) const PIN_MS: u64 = 3000;
pub(super) const PINS: u32 = 3;
pub(super) const MARK: u32 = 0x4000;

const ADDRESS: u32 = 7;
const VIP: u32 = 7 << 12 | 12 << 6 | 13;
const NP: u32 = 12 << 6 | 13;
const ENDPOINT: u32 = 7 << 6 | 13;
const VERDICTS: Option<(u32, u32)> = Some((VERDICT, 0));

pub(super) fn key(address: [u8; 4], protocol: u8, port: u16) -> Vec<u8> {
    [&address[..], &port_key(protocol, port)].concat()
}

pub(super) fn port_key(protocol: u8, port: u16) -> Vec<u8> {
    [&[protocol, 0, 0, 0][..], &port.to_be_bytes(), &[0, 0]].concat()
}

pub(super) fn endpoint(address: [u8; 4], port: u16) -> Vec<u8> {
    [&address[..], &port.to_be_bytes(), &[0, 0]].concat()
}

pub(super) fn slot(key: &[u8], number: u32) -> Vec<u8> {
    [key, &number.to_ne_bytes()].concat()
}

pub(super) fn pin(client: [u8; 4], key: &[u8]) -> Vec<u8> {
    [&client[..], key].concat()
}

fn set(name: &str, key_type: u32, key_length: u32, data: Option<(u32, u32)>) -> Set<'_> {
    Set { name, key_type, key_length, data, flags: SetFlags::default(), size: 0, user_data: &[] }
}

fn sets(batch: &mut Batch) {
    batch.add_set(&set("cluster-ips", ADDRESS, 4, None));
    batch.add_set(&set("nodeport-ips", ADDRESS, 4, None));
    let interval = SetFlags { interval: true, ..SetFlags::default() };
    batch.add_set(&Set { flags: interval, ..set("service-cidrs", ADDRESS, 4, None) });
    batch.add_set(&set("service-ips", VIP, 12, VERDICTS));
    batch.add_set(&set("service-nodeports", NP, 8, VERDICTS));
    batch.add_set(&set("endpoints", VIP << 6 | 19, 16, Some((ENDPOINT, 8))));
    batch.add_set(&set("nodeport-endpoints", NP << 6 | 19, 12, Some((ENDPOINT, 8))));
    for name in ["no-endpoint-reject-ips", "no-endpoint-drop-ips", "affinity-ips", "firewall-ips"] {
        batch.add_set(&set(name, VIP, 12, None));
    }
    batch.add_set(&set("no-endpoint-reject-nodeports", NP, 8, None));
    batch.add_set(&set("firewall-allow-24", VIP << 6 | ADDRESS, 16, None));
    batch.add_set(&set("hairpin-connections", ADDRESS << 18 | VIP, 16, None));
    batch.add_set(&set("affinity-endpoints-3", VIP << 12 | ENDPOINT, 20, None));
    let flags = SetFlags { timeout: true, dynamic: true, ..SetFlags::default() };
    let pins = set("affinity", ADDRESS << 18 | VIP, 16, Some((ENDPOINT, 8)));
    batch.add_set(&Set { flags, size: PINS, ..pins });
}

fn chains(batch: &mut Batch) {
    let hooks = [
        ("nat-prerouting", HookKind::Nat, 0, -100),
        ("nat-output", HookKind::Nat, 3, -100),
        ("nat-postrouting", HookKind::Nat, 4, 100),
        ("filter-prerouting-pre-dnat", HookKind::Filter, 0, -110),
        ("filter-output-pre-dnat", HookKind::Filter, 3, -110),
        ("filter-input", HookKind::Filter, 1, 0),
        ("filter-forward", HookKind::Filter, 2, 0),
        ("filter-output", HookKind::Filter, 3, 0),
    ];
    for (name, kind, number, priority) in hooks {
        batch.add_chain(&Chain { name, hook: Some(Hook { kind, number, priority }) });
    }
    let plain = ["services", "nodeports", "slot-zero", "lb-2", "aff-2", "ext-2", "np-2", "np-ext-2"];
    let filter = ["firewall-check", "input-new", "forward-new", "reject-it"];
    let affinity = ["affinity-record", "affinity-pin", "affinity-write", "affinity-stale"];
    for name in plain.into_iter().chain(filter).chain(affinity) {
        batch.add_chain(&Chain { name, hook: None });
    }
}

fn elements(batch: &mut Batch) {
    for address in [WEB, STICKY, EMPTY] {
        batch.add_element("cluster-ips", &address, ElementData::None, None);
    }
    batch.add_element("nodeport-ips", &NODE, ElementData::None, None);
    batch.add_interval("service-cidrs", &[10, 96, 0, 0], Some(&[10, 97, 0, 0]));
    for protocol in [6, 17] {
        batch.add_element("service-ips", &key(WEB, protocol, 80), ElementData::Goto("lb-2"), Some("web"));
        pool(batch, "endpoints", &key(WEB, protocol, 80));
        let node_port = port_key(protocol, NODE_PORT);
        batch.add_element("service-nodeports", &node_port, ElementData::Goto("np-ext-2"), None);
        pool(batch, "nodeport-endpoints", &node_port);
        batch.add_element("no-endpoint-reject-ips", &key(EMPTY, protocol, 80), ElementData::None, None);
        let empty = port_key(protocol, EMPTY_NODE_PORT);
        batch.add_element("no-endpoint-reject-nodeports", &empty, ElementData::None, None);
        let own = [&POD[..], &POD, &port_key(protocol, 8080)].concat();
        batch.add_element("hairpin-connections", &own, ElementData::None, None);
    }
    let guarded = key(GUARDED, 6, 80);
    batch.add_element("service-ips", &guarded, ElementData::Goto("ext-2"), None);
    pool(batch, "endpoints", &guarded);
    batch.add_element("firewall-ips", &guarded, ElementData::None, None);
    let range = [&guarded[..], &[192, 168, 50, 0]].concat();
    batch.add_element("firewall-allow-24", &range, ElementData::None, None);
    batch.add_element("no-endpoint-drop-ips", &key(NOT_HERE, 6, 80), ElementData::None, None);
    let sticky = key(STICKY, 6, 80);
    batch.add_element("service-ips", &sticky, ElementData::Goto("aff-2"), None);
    pool(batch, "endpoints", &sticky);
    batch.add_element("affinity-ips", &sticky, ElementData::None, None);
    for address in [POD, OTHER_POD] {
        let valid = [&sticky[..], &endpoint(address, 8080)].concat();
        batch.add_element("affinity-endpoints-3", &valid, ElementData::None, None);
    }
}

fn pool(batch: &mut Batch, map: &str, key: &[u8]) {
    for (number, address) in [POD, OTHER_POD].into_iter().enumerate() {
        let data = endpoint(address, 8080);
        batch.add_element(map, &slot(key, number as u32), ElementData::Value(&data), None);
    }
}

/// A simulator that holds all of it.
pub(super) fn simulator() -> Simulator {
    let mut batch = Batch::new(TableFamily::Ip, TABLE);
    batch.add_table("flat layout, small");
    sets(&mut batch);
    chains(&mut batch);
    for (chain, expressions) in nat_rules().into_iter().chain(filter_rules()) {
        batch.add_rule(&Rule { chain, expressions });
    }
    elements(&mut batch);
    let mut simulator = Simulator::new();
    simulator.commit_bytes(batch.bytes()).unwrap();
    simulator
}

pub(super) fn commit(simulator: &mut Simulator, change: impl FnOnce(&mut Batch)) {
    let mut batch = Batch::new(TableFamily::Ip, TABLE);
    change(&mut batch);
    simulator.commit_bytes(batch.bytes()).unwrap();
}

pub(super) fn host() -> Host {
    let mut host = Host::new([Ipv4Addr::from(NODE).into()]);
    host.routes.push((Ipv4Addr::new(10, 244, 1, 0).into(), 24, Ipv4Addr::new(10, 244, 1, 1).into()));
    host.addresses.push(Ipv4Addr::new(10, 244, 1, 1).into());
    host
}

pub(super) fn packet(from: [u8; 4], to: [u8; 4], port: u16) -> Packet {
    let interface = match from {
        NODE => None,
        POD | OTHER_POD => Some("pod-a"),
        _ => Some("eth0"),
    };
    Packet {
        protocol: Protocol::Tcp,
        source: Ipv4Addr::from(from).into(),
        source_port: 40000,
        destination: Ipv4Addr::from(to).into(),
        destination_port: port,
        mark: 0,
        origin: interface.map_or(Origin::Host, |name| Origin::Interface(name.to_owned())),
    }
}
