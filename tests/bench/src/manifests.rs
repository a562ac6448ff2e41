//! The generated cluster as manifests: JSON lists, a few hundred objects a file.

use std::path::Path;

use model::Family;
use serde_json::{Value, json};

use crate::{Failure, world};

const SERVICES_PER_FILE: u32 = 250;

/// Write all files; returns their size together.
pub(crate) fn write(folder: &Path, services: u32) -> Result<u64, Failure> {
    let mut bytes = 0;
    for first in (0..services).step_by(SERVICES_PER_FILE as usize) {
        let numbers = first..(first + SERVICES_PER_FILE).min(services);
        let items: Vec<Value> = numbers.flat_map(|number| [service(number), slice(number)]).collect();
        bytes += write_list(&folder.join(format!("services-{first:06}.json")), items)?;
    }
    bytes += write_list(&folder.join("cluster.json"), vec![service_cidr(), node()])?;
    Ok(bytes)
}

pub(crate) fn write_list(path: &Path, items: Vec<Value>) -> Result<u64, Failure> {
    let text = serde_json::to_string(&json!({ "apiVersion": "v1", "kind": "List", "items": items }))?;
    std::fs::write(path, &text)?;
    Ok(text.len() as u64)
}

fn service(number: u32) -> Value {
    let ip = world::cluster_ip(Family::V4, number);
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "namespace": world::namespace(number),
            "name": world::name(number),
            "creationTimestamp": "2024-05-01T10:00:00Z"
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": ip,
            "clusterIPs": [ip],
            "ipFamilies": ["IPv4"],
            "selector": { "app": world::name(number) },
            "ports": [{
                "name": world::PORT_NAME,
                "protocol": "TCP",
                "port": world::SERVICE_PORT,
                "targetPort": world::POD_PORT
            }]
        }
    })
}

fn slice(number: u32) -> Value {
    let endpoint = |pod: u32| {
        json!({
            "addresses": [world::pod_ip(Family::V4, pod)],
            "conditions": { "ready": true, "serving": true, "terminating": false },
            "nodeName": world::node_of(pod)
        })
    };
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": world::namespace(number),
            "name": world::slice_name(number, 0),
            "labels": { "kubernetes.io/service-name": world::name(number) }
        },
        "addressType": "IPv4",
        "ports": [{ "name": world::PORT_NAME, "protocol": "TCP", "port": world::POD_PORT }],
        "endpoints": world::pods(number).into_iter().map(endpoint).collect::<Vec<_>>()
    })
}

fn service_cidr() -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": { "name": "kubernetes" },
        "spec": { "cidrs": [world::SERVICE_CIDRS[0]] }
    })
}

fn node() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": world::NODE },
        "status": { "addresses": [{ "type": "InternalIP", "address": "192.168.0.1" }] }
    })
}
