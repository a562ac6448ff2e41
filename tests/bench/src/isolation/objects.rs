//! Services and slices as JSON.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};

use crate::world;

/// What an EndpointSlice consists of.
pub(crate) struct Slice<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) service: &'a str,
    /// A service may have several.
    pub(crate) suffix: u32,
    pub(crate) ports: Vec<(String, u16)>,
    pub(crate) pods: Vec<IpAddr>,
}

/// With one port 80 over TCP.
pub(crate) fn service(namespace: &str, name: &str, ip: IpAddr) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": ip,
            "clusterIPs": [ip],
            "ipFamilies": ["IPv4"],
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}],
        },
    })
}

pub(crate) fn slice(slice: &Slice<'_>) -> Value {
    let port = |(name, port): &(String, u16)| json!({"name": name, "protocol": "TCP", "port": port});
    let endpoint = |ip: &IpAddr| {
        json!({
            "addresses": [ip],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": "node-2",
        })
    };
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": slice.namespace,
            "name": format!("{}-{}", slice.service, slice.suffix),
            "labels": {"kubernetes.io/service-name": slice.service},
        },
        "addressType": "IPv4",
        "ports": slice.ports.iter().map(port).collect::<Vec<_>>(),
        "endpoints": slice.pods.iter().map(endpoint).collect::<Vec<_>>(),
    })
}

/// The node, the range of cluster IPs, and services that are not asked.
pub(crate) fn surroundings(services: u32) -> Vec<Value> {
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": world::NODE},
        "status": {"addresses": [{"type": "InternalIP", "address": sandbox::address::NODE_V4}]},
    });
    let range = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": [sandbox::address::SERVICES_V4.to_string()]},
    });
    let others = (0..services).flat_map(|number| {
        let (name, ip) = (format!("other-{number}"), Ipv4Addr::from_bits(0x0a60_1000 + number).into());
        let pods = (0..3).map(|pod| Ipv4Addr::from_bits(0x0a90_0000 + 3 * number + pod).into()).collect();
        let ports = vec![("http".to_owned(), 8080)];
        let slice = slice(&Slice { namespace: "default", service: &name, suffix: 0, ports, pods });
        [service("default", &name, ip), slice]
    });
    [node, range].into_iter().chain(others).collect()
}
