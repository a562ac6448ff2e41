//! Objects that an apiserver would let pass, chosen by bytes, as JSON. From small pools, so that names, addresses and
//! ports collide often, with the odd ones that validation allows.

mod crowd;

use cluster::Kind;
use serde_json::{Value, json};

use crate::choices::Choices;
use crowd::Count;

/// As long as a label may be.
const LONG: &str = "abcdefghijklmnopqrstuvwxyz-0123456789-abcdefghijklmnopqrstuvwxy";
const NAMES: [&str; 5] = ["a", "b", "web", "web-1", LONG];
const NAMESPACES: [&str; 3] = ["default", "x", LONG];
const PORT_NAMES: [&str; 5] = ["", "http", "dns", "p-1", LONG];
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
const PORTS: [u16; 6] = [80, 443, 53, 1, 65535, 30080];
const TARGET_PORTS: [Option<u16>; 4] = [Some(8080), Some(80), Some(65535), None];
const NODE_PORTS: [u16; 6] = [0, 0, 30080, 30081, 1, 65535];
const V4: [&str; 6] =
    ["10.96.0.1", "10.96.0.2", "10.97.255.255", "192.168.50.2", "10.244.1.10", "255.255.255.255"];
const V6: [&str; 5] = ["fd00:96::1", "fd00:96::2", "fd00:50::2", "fd00:244:1::10", "ff0e::1"];
/// A balancer's address may be any.
const ODD: [&str; 6] = ["127.0.0.1", "::1", "0.0.0.0", "::", "169.254.0.1", "fe80::1"];
const RANGES: [&str; 9] = [
    "0.0.0.0/0",
    "::/0",
    "10.0.0.0/8",
    "10.1.2.3/8",
    " 192.168.60.9/32 ",
    "fd00::/8",
    "fd00:60::9/128",
    "128.0.0.0/1",
    "255.255.255.255/32",
];
const ENDPOINTS_V4: [&str; 6] =
    ["10.244.1.10", "10.244.1.11", "10.244.2.10", "192.168.50.2", "192.168.50.3", "255.255.255.255"];
const ENDPOINTS_V6: [&str; 5] = [
    "fd00:244:1::10",
    "fd00:244:1::11",
    "fd00:244:2::10",
    "fd00:50::2",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
];
const NODES: [&str; 3] = ["node-1", "node-2", ""];
const ZONES: [&str; 3] = ["zone-1", "zone-2", LONG];
/// As many ports as a service has at most here.
const MOST_PORTS: usize = 6;
/// Most slices are small; now and then one has many endpoints.
const MANY: usize = 40;

/// What is applied or deleted: its kind, and the object.
pub(super) fn any(choices: &mut Choices<'_>) -> (Kind, Value) {
    match choices.below(16) {
        0..6 => (Kind::Service, service(choices)),
        6..14 => (Kind::EndpointSlice, slice(choices)),
        14 => (Kind::Node, node(choices)),
        _ => (Kind::ServiceCidr, service_cidr(choices)),
    }
}

fn some<T: Clone>(choices: &mut Choices<'_>, items: &[T], most: usize) -> Vec<T> {
    (0..choices.below(most + 1)).map(|_| choices.pick(items)).collect()
}

fn service(choices: &mut Choices<'_>) -> Value {
    let kind = choices.pick(&["ClusterIP", "NodePort", "LoadBalancer"]);
    let (v4, v6) = (choices.pick(&V4[..3]), choices.pick(&V6[..2]));
    let cluster_ips = choices.pick(&[vec![v4], vec![v6], vec![v4, v6], vec![v6, v4]]);
    let addresses = [&V4[..], &V6[..]].concat();
    let any_address = [&addresses[..], &ODD[..]].concat();
    let ingress = some(choices, &any_address, 3);
    let affinity = choices.pick(&[None, None, Some(1), Some(10_800), Some(86_400)]);
    let policy = |choices: &mut Choices<'_>| choices.pick(&["Cluster", "Local"]);
    let (name, namespace) = (choices.below(NAMES.len()), choices.below(NAMESPACES.len()));
    // The apiserver hands out each of these ports once.
    let health_check_port = 30_100 + name * NAMESPACES.len() + namespace;
    let created = choices.pick(&["2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"]);
    let external_ips = external_ips(choices, &addresses);
    // Crowds do not multiply: an input is to be run within the limits.
    let may_crowd = external_ips.len() <= addresses.len();
    json!({
        "metadata": {
            "name": NAMES[name], "namespace": NAMESPACES[namespace],
            "creationTimestamp": created,
        },
        "spec": {
            "type": kind,
            "clusterIP": cluster_ips[0],
            "clusterIPs": cluster_ips,
            "externalIPs": external_ips,
            "ports": ports(choices, kind != "ClusterIP", may_crowd),
            "loadBalancerSourceRanges": some(choices, &RANGES, 4),
            "sessionAffinity": if affinity.is_some() { "ClientIP" } else { "None" },
            "sessionAffinityConfig": affinity.map(|seconds| json!({"clientIP": {"timeoutSeconds": seconds}})),
            "internalTrafficPolicy": policy(choices),
            "externalTrafficPolicy": policy(choices),
            "healthCheckNodePort": choices.pick(&[0, health_check_port]),
        },
        "status": {"loadBalancer": {"ingress": ingress.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>()}},
    })
}

fn external_ips(choices: &mut Choices<'_>, addresses: &[&str]) -> Vec<String> {
    match Count::any(choices, 5) {
        Count::Few(count) => (0..count).map(|_| choices.pick(addresses).to_owned()).collect(),
        Count::Crowd => crowd::addresses(choices),
    }
}

/// Unlike in name, in protocol and number, and in protocol and node port.
fn ports(choices: &mut Choices<'_>, has_node_ports: bool, may_crowd: bool) -> Vec<Value> {
    let most = match Count::any(choices, MOST_PORTS) {
        Count::Few(count) => count,
        Count::Crowd if may_crowd => return crowd::ports(choices, has_node_ports),
        Count::Crowd => 0,
    };
    let mut taken = Vec::new();
    let mut ports = Vec::new();
    for _ in 0..=most {
        let name = choices.pick(&PORT_NAMES);
        let protocol = choices.pick(&PROTOCOLS);
        let (port, node_port) = (choices.pick(&PORTS), choices.pick(&NODE_PORTS));
        let node_port = if has_node_ports { node_port } else { 0 };
        let claims =
            [format!("name {name}"), format!("{protocol} {port}"), format!("{protocol} node {node_port}")];
        let is_taken = claims.iter().any(|claim| taken.contains(claim) && !claim.ends_with("node 0"));
        if !is_taken {
            taken.extend(claims);
            ports.push(json!({"name": name, "protocol": protocol, "port": port, "nodePort": node_port}));
        }
    }
    ports
}

fn slice(choices: &mut Choices<'_>) -> Value {
    let service = choices.pick(&NAMES);
    let is_v6 = choices.below(2) == 1;
    let ports = slice_ports(choices);
    let is_crowded = ports.len() >= MOST_PORTS;
    let endpoints = endpoints(choices, is_v6, !is_crowded);
    let name = choices.pick(&["web-a", "web-b", "x", "a-1", "b-1"]);
    json!({
        "metadata": {
            "name": if is_crowded { "crowd" } else { name }, "namespace": choices.pick(&NAMESPACES),
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": if is_v6 { "IPv6" } else { "IPv4" },
        "ports": ports,
        "endpoints": endpoints,
    })
}

fn slice_ports(choices: &mut Choices<'_>) -> Vec<Value> {
    let most = match Count::any(choices, MOST_PORTS) {
        Count::Few(count) => count,
        Count::Crowd => return crowd::slice_ports(choices),
    };
    let mut ports: Vec<Value> = Vec::new();
    for _ in 0..most {
        let name = choices.pick(&PORT_NAMES);
        if ports.iter().all(|port| port["name"] != name) {
            let port = choices.pick(&TARGET_PORTS);
            ports.push(json!({"name": name, "protocol": choices.pick(&PROTOCOLS), "port": port}));
        }
    }
    ports
}

fn endpoints(choices: &mut Choices<'_>, is_v6: bool, may_be_many: bool) -> Vec<Value> {
    let count = match choices.byte() {
        u8::MAX if may_be_many => return crowd::endpoints(choices, is_v6),
        248.. if may_be_many => choices.below(MANY),
        _ => choices.below(6),
    };
    (0..count).map(|number| endpoint(choices, is_v6, number)).collect()
}

fn endpoint(choices: &mut Choices<'_>, is_v6: bool, number: usize) -> Value {
    let address = match (number < 6, is_v6) {
        (true, false) => choices.pick(&ENDPOINTS_V4).to_owned(),
        (true, true) => choices.pick(&ENDPOINTS_V6).to_owned(),
        (false, false) => format!("10.244.3.{number}"),
        (false, true) => format!("fd00:244:3::{number:x}"),
    };
    let condition = |choices: &mut Choices<'_>| choices.pick(&[None, Some(true), Some(false), Some(true)]);
    let named = |names: Vec<&str>| names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
    json!({
        "addresses": [address],
        "conditions": {"ready": condition(choices), "serving": condition(choices), "terminating": condition(choices)},
        "nodeName": Some(choices.pick(&NODES)).filter(|name| !name.is_empty()),
        "hints": {"forZones": named(some(choices, &ZONES, 2)), "forNodes": named(some(choices, &NODES[..2], 1))},
    })
}

fn node(choices: &mut Choices<'_>) -> Value {
    let addresses = some(choices, &[&V4[3..4], &V6[2..3], &ODD[..2]].concat(), 3);
    json!({
        "metadata": {"name": "node-1", "labels": {"topology.kubernetes.io/zone": choices.pick(&ZONES)}},
        "spec": {"podCIDRs": some(choices, &["10.244.1.0/24", "fd00:244:1::/64"], 2)},
        "status": {"addresses": addresses.iter().map(|ip| json!({"type": "InternalIP", "address": ip})).collect::<Vec<_>>()},
    })
}

fn service_cidr(choices: &mut Choices<'_>) -> Value {
    let ranges =
        ["10.96.0.0/12", "10.96.0.0/16", "fd00:96::/108", "10.97.0.0/16", "0.0.0.0/0", "fd00:96::1/128"];
    json!({"metadata": {"name": choices.pick(&["kubernetes", "more"])}, "spec": {"cidrs": some(choices, &ranges, 3)}})
}
