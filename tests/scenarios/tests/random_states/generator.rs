//! Random objects and packets from small pools, so that everything collides often.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

use cluster::{EndpointRecord, Kind, NodeFacts, Object, ObjectChange, ObjectKey, SliceRecord, Value};
use ipnet::IpNet;
use model::{Family, Hints, Protocol, Service, ServicePort, SlicePort, TrafficPolicy};
use test_support::Dice;
use test_support::directory::{NODE, OTHER_NODE, ZONE, address_of, node_of};
use test_support::flows::Position;
use test_support::world::{Range, address_in};

const SERVICES: u32 = 8;
const ENDPOINTS: [&str; 6] = ["a", "b", "c", "far", "node", "remote"];
const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
const PORTS: [u16; 3] = [80, 81, 443];
const NODE_PORTS: [u16; 5] = [0, 0, 30080, 30081, 30443];
const NAMES: [&str; 3] = ["x", "y", "z"];
const RANGES: [&str; 9] = [
    "192.168.60.9/32",
    "192.168.60.0/24",
    "10.244.0.0/16",
    "192.168.50.2/32",
    "0.0.0.0/0",
    "fd00:60::9/128",
    "fd00:60::/64",
    "fd00:244::/32",
    "fd00:50::2/128",
];
pub(crate) const POSITIONS: [Position; 8] = [
    Position::Guest,
    Position::EndpointB,
    Position::Node,
    Position::NodeOuter,
    Position::Far,
    Position::Outside,
    Position::OutsideSecond,
    Position::OutsideAsBalancer,
];

fn path(number: u16) -> String {
    format!("default/s{number}")
}

/// Objects that every state begins with.
pub(crate) fn beginning() -> Vec<ObjectChange> {
    vec![node(Some(ZONE)), service_cidrs(&[12])]
}

/// One step of a source.
pub(crate) fn change(dice: &mut Dice) -> ObjectChange {
    let number = dice.below(SERVICES) as u16;
    match dice.below(100) {
        0..35 => {
            let service = Box::new(service(dice, number));
            apply(Kind::Service, &path(number), Value::Service(service))
        }
        35..43 => delete(Kind::Service, &path(number)),
        43..85 => {
            let (path, record) = slice(dice, number);
            apply(Kind::EndpointSlice, &path, Value::EndpointSlice(record))
        }
        85..92 => {
            let (path, _) = slice(dice, number);
            delete(Kind::EndpointSlice, &path)
        }
        92..96 => node(dice.pick(&[Some(ZONE), Some("zone-2"), None])),
        _ => service_cidrs(&dice.pick(&[vec![], vec![12], vec![13], vec![12, 14]])),
    }
}

fn apply(kind: Kind, path: &str, value: Value) -> ObjectChange {
    ObjectChange::Apply(Object { key: ObjectKey { kind, path: path.into() }, value })
}

fn delete(kind: Kind, path: &str) -> ObjectChange {
    ObjectChange::Delete(ObjectKey { kind, path: path.into() })
}

fn node(zone: Option<&str>) -> ObjectChange {
    let facts = NodeFacts {
        zone: zone.map(Into::into),
        primary: Family::BOTH.map(|family| Some(address_of("node", family))),
        eligible: true,
        ..NodeFacts::default()
    };
    apply(Kind::Node, NODE, Value::Node(facts))
}

/// Ranges around the cluster IPs: of this prefix length below the whole, for either family.
fn service_cidrs(lengths: &[u8]) -> ObjectChange {
    let nets = lengths.iter().flat_map(|length| {
        Family::BOTH.map(|family| {
            let width = if family == Family::V4 { 32 } else { 128 };
            let ip = address_in(Range::Cluster, 0, family);
            IpNet::new(ip, width - length).unwrap().trunc()
        })
    });
    apply(Kind::ServiceCidr, "kubernetes", Value::ServiceCidr(nets.collect()))
}

fn service(dice: &mut Dice, number: u16) -> Service {
    // Now and then two services have the same cluster IP, which the apiserver would not allow.
    let own = if dice.chance(5) { dice.below(SERVICES) as u16 } else { number };
    let ips = Family::BOTH.map(|family| address_in(Range::Cluster, own, family));
    let cluster_ips: Vec<IpAddr> = match dice.below(6) {
        0 => vec![ips[0]],
        1 => vec![ips[1]],
        _ => ips.to_vec(),
    };
    let policy = [TrafficPolicy::Cluster, TrafficPolicy::Local];
    let ranges: Vec<IpNet> = RANGES.iter().map(|net| net.parse().unwrap()).collect();
    Service {
        cluster_ips: cluster_ips.into(),
        ports: ports(dice).into(),
        external_ips: dice.some(&external_ips(), 4).into(),
        load_balancer_ips: dice.some(&balancer_ips(), 3).into(),
        source_ranges: if dice.chance(40) { dice.some(&ranges, 4).into() } else { Box::default() },
        affinity_seconds: dice.pick(&[None, None, Some(10), Some(10800)]),
        internal_policy: dice.pick(&policy),
        external_policy: dice.pick(&policy),
        health_check_node_port: None,
        created: i64::from(dice.below(3)),
    }
}

/// No two of one protocol and number: such a service is refused before it comes this far.
fn ports(dice: &mut Dice) -> Vec<ServicePort> {
    let mut ports: Vec<ServicePort> = Vec::new();
    for name in NAMES {
        let port = ServicePort {
            name: name.into(),
            protocol: dice.pick(&PROTOCOLS),
            port: dice.pick(&PORTS),
            node_port: NonZeroU16::new(dice.pick(&NODE_PORTS)),
        };
        let taken = ports.iter().any(|p| (p.protocol, p.port) == (port.protocol, port.port));
        if !taken && dice.chance(70) {
            ports.push(port);
        }
    }
    ports
}

fn both(number: impl Fn(Family) -> IpAddr) -> [IpAddr; 2] {
    Family::BOTH.map(number)
}

/// External addresses, among them the node's own and a cluster IP.
fn external_ips() -> Vec<IpAddr> {
    let own = [both(|f| address_in(Range::External, 1, f)), both(|f| address_in(Range::External, 2, f))];
    let odd = [
        both(|f| address_in(Range::Balancer, 1, f)),
        both(|f| address_in(Range::Cluster, 3, f)),
        both(|f| address_of("node", f)),
    ];
    [own.concat(), odd.concat()].concat()
}

fn balancer_ips() -> Vec<IpAddr> {
    let second = test_support::world::SECOND_BALANCER;
    [both(|f| address_in(Range::Balancer, 1, f)), both(|f| address_in(Range::Balancer, second, f))].concat()
}

/// One of two slices a service and family.
fn slice(dice: &mut Dice, number: u16) -> (String, SliceRecord) {
    let family = dice.pick(&Family::BOTH);
    let name = format!("{}-{}-{family}", path(number), dice.below(2));
    let mut ports = Vec::new();
    for name in NAMES {
        for protocol in PROTOCOLS {
            if dice.chance(70) {
                ports.push(SlicePort { name: name.into(), protocol, port: dice.pick(&[8080, 8080, 9090]) });
            }
        }
    }
    let endpoints = dice.some(&ENDPOINTS, 5).into_iter().map(|name| endpoint(dice, name, family)).collect();
    let service = path(number).into();
    (name, SliceRecord { service, family, ports: ports.into(), endpoints, triggered_ms: None })
}

fn endpoint(dice: &mut Dice, name: &str, family: Family) -> EndpointRecord {
    let ready = dice.chance(70);
    let hints = |dice: &mut Dice, names: [&str; 2]| -> Box<[Box<str>]> {
        if dice.chance(80) { [dice.pick(&names).into()].into() } else { Box::default() }
    };
    let hints = dice.chance(40).then(|| Hints {
        zones: hints(dice, [ZONE, "zone-2"]),
        nodes: if dice.chance(50) { hints(dice, [NODE, OTHER_NODE]) } else { Box::default() },
    });
    EndpointRecord {
        ip: address_of(name, family),
        ready,
        serving: ready || dice.chance(60),
        terminating: !ready && dice.chance(60),
        node: dice.chance(90).then(|| node_of(name).into()),
        hints,
    }
}

/// A question: who, over what, to where.
pub(crate) fn question(dice: &mut Dice) -> (Position, Protocol, SocketAddr) {
    let family = dice.pick(&Family::BOTH);
    let node_port = dice.pick(&NODE_PORTS[2..]);
    let port = dice.pick(&PORTS);
    let to = match dice.below(10) {
        0..3 => SocketAddr::new(address_in(Range::Cluster, dice.below(SERVICES + 1) as u16, family), port),
        3..6 => SocketAddr::new(of_family(dice, &external_ips(), family), port),
        6..8 => SocketAddr::new(of_family(dice, &balancer_ips(), family), port),
        8 => SocketAddr::new(address_of("node", family), node_port),
        _ => {
            let other = match family {
                Family::V4 => sandbox::address::NODE_OUTER_V4.into(),
                Family::V6 => sandbox::address::NODE_OUTER_V6.into(),
            };
            SocketAddr::new(other, node_port)
        }
    };
    let from = dice.pick(&POSITIONS);
    (from, dice.pick(&PROTOCOLS), to)
}

fn of_family(dice: &mut Dice, ips: &[IpAddr], family: Family) -> IpAddr {
    let ips: Vec<IpAddr> = ips.iter().copied().filter(|ip| Family::of(*ip) == family).collect();
    dice.pick(&ips)
}
