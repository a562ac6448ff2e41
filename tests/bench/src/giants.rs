//! Services of another tenant that are as large as may be, among ordinary ones: questions about them, or about all
//! services, must not hold up a sync either.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use model::Family;
use serde_json::{Value, json};

use crate::isolation::objects::{self, Slice};
use crate::{Failure, manifests, world};

pub(crate) const NAMESPACE: &str = "tenant";
/// Ports of the one and endpoints of the other.
const PORTS: u16 = 20_000;
const ENDPOINTS: u32 = 50_000;
/// Endpoints and addresses of one that is still planned for a question.
const PLANNED_ENDPOINTS: u32 = 950;
const PLANNED_ADDRESSES: u32 = 16;
/// Services that each have so many ports at so many addresses.
const BROAD: u32 = 40;
const BROAD_PORTS: u16 = 50;
const BROAD_ADDRESSES: u32 = 30;
/// As many as the apiserver lets one slice have.
const SLICE: u32 = 1_000;
/// Cluster IPs behind those of the ordinary services.
const FIRST: u32 = 100_000;

pub(crate) fn write(folder: &Path) -> Result<(), Failure> {
    let mut all = vec![ports("ports", 0, PORTS, 1), slice("ports", 0, PORTS, 3)];
    all.extend(wide("wide", 1, ENDPOINTS, 1));
    all.extend(wide("planned", 2, PLANNED_ENDPOINTS, PLANNED_ADDRESSES));
    for number in 0..BROAD {
        let name = format!("broad-{number}");
        all.extend([ports(&name, 3 + number, BROAD_PORTS, BROAD_ADDRESSES), slice(&name, 0, BROAD_PORTS, 1)]);
    }
    manifests::write_list(&folder.join("giants.json"), all).map(drop)
}

/// Questions about them, and how the table names them.
pub(crate) fn questions() -> Vec<(&'static str, String)> {
    let [ports, wide] = [0, 1].map(ip);
    let from = world::pod_ip(Family::V4, 1);
    vec![
        ("a page of services with giants", format!("/pointsman/v1/services?limit=500&namespace={NAMESPACE}")),
        ("explain one of 20,000 ports", format!("/pointsman/v1/explain?to={ports}:{PORTS}&from={from}")),
        ("explain one of 50,000 endpoints", format!("/pointsman/v1/explain?to={wide}:80&from={from}")),
        ("explain a service of 950 endpoints", format!("/pointsman/v1/explain?service={NAMESPACE}/planned")),
        ("the page with the same", format!("/?service={NAMESPACE}/planned")),
    ]
}

fn ip(number: u32) -> IpAddr {
    world::cluster_ip(Family::V4, FIRST + number)
}

/// The further addresses of a service.
fn external_ips(number: u32, addresses: u32) -> Value {
    let first = 0xc612_0000 + number * 64;
    (0..addresses - 1).map(|one| Ipv4Addr::from_bits(first + one).to_string()).collect()
}

fn ports(name: &str, number: u32, count: u16, addresses: u32) -> Value {
    let mut service = objects::service(NAMESPACE, name, ip(number));
    let port =
        |port: u16| json!({"name": format!("p{port}"), "protocol": "TCP", "port": port, "targetPort": port});
    service["spec"]["ports"] = (1..=count).map(port).collect();
    service["spec"]["externalIPs"] = external_ips(number, addresses);
    service
}

fn wide(name: &str, number: u32, endpoints: u32, addresses: u32) -> Vec<Value> {
    let mut service = objects::service(NAMESPACE, name, ip(number));
    service["spec"]["externalIPs"] = external_ips(number, addresses);
    let slices = (0..endpoints.div_ceil(SLICE)).map(|suffix| {
        let last = ((suffix + 1) * SLICE).min(endpoints);
        let pods = (suffix * SLICE..last).map(|pod| world::pod_ip(Family::V4, world::SPARE + pod)).collect();
        let ports = vec![("http".to_owned(), 8080)];
        objects::slice(&Slice { namespace: NAMESPACE, service: name, suffix, ports, pods })
    });
    [service].into_iter().chain(slices).collect()
}

fn slice(name: &str, suffix: u32, ports: u16, pods: u32) -> Value {
    let ports = (1..=ports).map(|port| (format!("p{port}"), port)).collect();
    let pods = (0..pods).map(|pod| world::pod_ip(Family::V4, world::SPARE + pod)).collect();
    objects::slice(&Slice { namespace: NAMESPACE, service: name, suffix, ports, pods })
}
