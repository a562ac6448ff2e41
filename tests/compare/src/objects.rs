//! The objects both see: services by number, a slice of five endpoints each, with the fields that controllers
//! write; and a few services that can be probed, spread over the namespaces.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};

pub(crate) const NODE: &str = "node-1";
pub(crate) const ENDPOINTS: u32 = 5;
pub(crate) const SERVICE_PORT: u16 = 80;
pub(crate) const POD_PORT: u16 = 8080;
pub(crate) const PROBES: u32 = 4;
pub(crate) const NAMESPACES: u32 = 50;
/// What fits into the range of cluster IPs below the probes.
pub(crate) const MOST: u32 = 60_000;

const PORT_NAME: &str = "http";
/// Of these one is ours, so that some endpoints are local.
const NODES: u32 = 500;
/// Pods that no service has at first.
const SPARE: u32 = 1 << 21;
const ZONES: u32 = 3;

pub(crate) fn namespaces() -> Vec<Value> {
    let one =
        |number| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace(number)}});
    (0..NAMESPACES).map(one).collect()
}

pub(crate) fn service(number: u32) -> Value {
    service_named(&namespace(number), &format!("backend-{number}"), cluster_ip(number))
}

/// `turn` tells versions apart: each has another pod as its first endpoint, and as many.
pub(crate) fn slice(number: u32, turn: u32) -> Value {
    let pods = (0..ENDPOINTS).map(|at| match (at, turn) {
        (0, 1..) => SPARE + number * 8 + turn % 8,
        _ => number * ENDPOINTS + at,
    });
    let (namespace, name) = (namespace(number), format!("backend-{number}"));
    let endpoints = pods.map(|pod| endpoint(&namespace, &name, pod_ip(pod), &node_of(pod), pod)).collect();
    slice_of(&namespace, &name, endpoints)
}

/// The address at which a probe is reached.
pub(crate) fn probe_ip(number: u32) -> IpAddr {
    cluster_ip(MOST + number)
}

pub(crate) fn probe_service(number: u32) -> Value {
    service_named(&probe_namespace(number), &probe_name(number), probe_ip(number))
}

/// With the one pod that is to answer.
pub(crate) fn probe_slice(number: u32, pod: IpAddr) -> Value {
    let (namespace, name) = (probe_namespace(number), probe_name(number));
    let endpoints = vec![endpoint(&namespace, &name, pod, NODE, MOST * ENDPOINTS + number)];
    slice_of(&namespace, &name, endpoints)
}

/// Neither the first nor all in one place, in whichever order objects are listed.
fn probe_namespace(number: u32) -> String {
    namespace(number * NAMESPACES / PROBES + NAMESPACES / PROBES / 2)
}

fn probe_name(number: u32) -> String {
    format!("backend-{}-probe", 3 + 2 * number)
}

fn namespace(number: u32) -> String {
    format!("team-{}", number % NAMESPACES)
}

fn node_of(pod: u32) -> String {
    format!("node-{}", pod % NODES)
}

/// In 10.96.0.0/16, whose first addresses are the control plane's own.
fn cluster_ip(number: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a60_0000 + 256 + number).into()
}

/// Addresses that are not in use.
fn pod_ip(pod: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a80_0000 + 16 + pod).into()
}

fn labels(name: &str) -> Value {
    json!({
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/instance": format!("{name}-production"),
        "app.kubernetes.io/managed-by": "Helm",
        "helm.sh/chart": "backend-1.4.2",
    })
}

fn service_named(namespace: &str, name: &str, ip: IpAddr) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": labels(name),
            "annotations": {
                "meta.helm.sh/release-name": format!("{name}-production"),
                "meta.helm.sh/release-namespace": namespace,
            },
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": ip,
            "clusterIPs": [ip],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "selector": {"app.kubernetes.io/name": name, "app.kubernetes.io/instance": format!("{name}-production")},
            "ports": [{"name": PORT_NAME, "protocol": "TCP", "port": SERVICE_PORT, "targetPort": POD_PORT}],
        },
    })
}

fn slice_of(namespace: &str, service: &str, endpoints: Vec<Value>) -> Value {
    let mut labels = labels(service);
    labels["kubernetes.io/service-name"] = service.into();
    labels["endpointslice.kubernetes.io/managed-by"] = "endpointslice-controller.k8s.io".into();
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": namespace,
            "name": format!("{service}-x7k2p"),
            "generateName": format!("{service}-"),
            "labels": labels,
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T10:00:00Z"},
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Service", "name": service, "uid": uid(service, 0),
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "addressType": "IPv4",
        "ports": [{"name": PORT_NAME, "protocol": "TCP", "port": POD_PORT}],
        "endpoints": endpoints,
    })
}

fn endpoint(namespace: &str, service: &str, ip: IpAddr, node: &str, pod: u32) -> Value {
    json!({
        "addresses": [ip],
        "conditions": {"ready": true, "serving": true, "terminating": false},
        "nodeName": node,
        "zone": format!("zone-{}", pod % ZONES),
        "targetRef": {
            "kind": "Pod",
            "namespace": namespace,
            "name": format!("{service}-6d4cf56db6-{pod:05x}"),
            "uid": uid(service, pod),
        },
    })
}

/// Of the usual length; it need not be the object's own.
fn uid(name: &str, number: u32) -> String {
    let letters: u32 = name.bytes().fold(7, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    format!("{letters:08x}-5717-4562-b3fc-2c96{number:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_a_slice_differ_in_one_endpoint() {
        let addresses = |turn| {
            let slice = slice(7, turn);
            let endpoints = slice["endpoints"].as_array().unwrap().clone();
            endpoints.iter().map(|one| one["addresses"][0].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let (before, after) = (addresses(0), addresses(1));
        assert_eq!(before.len(), ENDPOINTS as usize);
        assert_eq!(before[1..], after[1..]);
        assert_ne!(before[0], after[0]);
        assert_ne!(after[0], addresses(2)[0]);
    }

    #[test]
    fn no_two_services_share_an_address_or_a_name() {
        assert_ne!(cluster_ip(MOST - 1), probe_ip(0));
        let probes: std::collections::BTreeSet<String> = (0..PROBES).map(probe_namespace).collect();
        assert_eq!(probes.len(), PROBES as usize);
        assert!(probe_ip(PROBES).to_string().starts_with("10.96."));
    }
}
