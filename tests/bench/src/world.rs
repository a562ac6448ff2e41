//! The generated cluster: services by number, each with endpoints by number, all of one family.
//!
//! Service addresses are counted through 10.96.0.0/12, pods through 10.128.0.0/9 (fd96::/64 and fd80::/64);
//! the upper half of the pods is spare, for endpoints that come later.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cluster::{EndpointRecord, Kind, Object, ObjectKey, SliceRecord, Value};
use model::{Family, Protocol, Service, ServiceKey, ServicePort, SlicePort, TrafficPolicy};

use crate::Failure;

pub(crate) const NODE: &str = "node-1";
pub(crate) const POD_CIDRS: [&str; 2] = ["10.128.0.0/9", "fd80::/64"];
pub(crate) const SERVICE_CIDRS: [&str; 2] = ["10.96.0.0/12", "fd96::/64"];
pub(crate) const SERVICE_PORT: u16 = 80;
pub(crate) const POD_PORT: u16 = 8080;
pub(crate) const PORT_NAME: &str = "http";
pub(crate) const ENDPOINTS: u32 = 5;
/// Pods from this number on belong to no service at first.
pub(crate) const SPARE: u32 = 1 << 22;
/// Of these one is ours, so that some endpoints are local.
const NODES: u32 = 1_000;
const NAMESPACES: u32 = 50;

pub(crate) fn namespace(service: u32) -> String {
    format!("team-{}", service % NAMESPACES)
}

pub(crate) fn name(service: u32) -> String {
    format!("service-{service}")
}

pub(crate) fn key(service: u32) -> ServiceKey {
    format!("{}/{}", namespace(service), name(service)).into()
}

/// The control plane's way to name a slice; a service of many endpoints has several.
pub(crate) fn slice_name(service: u32, slice: u32) -> String {
    format!("service-{service}-x7k{slice}p")
}

/// The pods behind a service at first.
pub(crate) fn pods(service: u32) -> Vec<u32> {
    (0..ENDPOINTS).map(|endpoint| service * ENDPOINTS + endpoint).collect()
}

pub(crate) fn node_of(pod: u32) -> String {
    format!("node-{}", pod % NODES)
}

pub(crate) fn cluster_ip(family: Family, service: u32) -> IpAddr {
    // The first addresses of a range are the control plane's own.
    address(family, 0x0a60_0000, 0xfd96, service + 16)
}

pub(crate) fn pod_ip(family: Family, pod: u32) -> IpAddr {
    address(family, 0x0a80_0000, 0xfd80, pod + 16)
}

fn address(family: Family, v4: u32, v6: u128, number: u32) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::from_bits(v4 + number).into(),
        Family::V6 => Ipv6Addr::from_bits(v6 << 112 | u128::from(number)).into(),
    }
}

pub(crate) fn service_cidrs() -> Result<Object, Failure> {
    let cidrs = SERVICE_CIDRS.iter().map(|net| net.parse()).collect::<Result<_, _>>()?;
    Ok(Object { key: ObjectKey::new(Kind::ServiceCidr, "", "kubernetes"), value: Value::ServiceCidr(cidrs) })
}

pub(crate) fn service(family: Family, number: u32) -> Object {
    let port =
        ServicePort { name: PORT_NAME.into(), protocol: Protocol::Tcp, port: SERVICE_PORT, node_port: None };
    let service = Service {
        cluster_ips: [cluster_ip(family, number)].into(),
        ports: [port].into(),
        external_ips: [].into(),
        load_balancer_ips: [].into(),
        source_ranges: [].into(),
        affinity_seconds: None,
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
        created: 0,
    };
    let key = ObjectKey { kind: Kind::Service, path: key(number) };
    Object { key, value: Value::Service(Box::new(service)) }
}

pub(crate) fn slice_key(service: u32, slice: u32) -> ObjectKey {
    ObjectKey::new(Kind::EndpointSlice, &namespace(service), &slice_name(service, slice))
}

pub(crate) fn slice(family: Family, number: u32, slice: u32, pods: &[u32]) -> Object {
    let endpoint = |pod: &u32| EndpointRecord {
        ip: pod_ip(family, *pod),
        ready: true,
        serving: true,
        terminating: false,
        node: Some(node_of(*pod).into()),
        hints: None,
    };
    let record = SliceRecord {
        service: key(number),
        family,
        ports: [SlicePort { name: PORT_NAME.into(), protocol: Protocol::Tcp, port: POD_PORT }].into(),
        endpoints: pods.iter().map(endpoint).collect(),
        triggered_ms: None,
    };
    Object { key: slice_key(number, slice), value: Value::EndpointSlice(record) }
}

/// The same with UDP in the place of TCP.
pub(crate) fn over_udp(mut object: Object) -> Object {
    match &mut object.value {
        Value::Service(service) => {
            service.ports.iter_mut().for_each(|port| port.protocol = Protocol::Udp);
        }
        Value::EndpointSlice(slice) => {
            slice.ports.iter_mut().for_each(|port| port.protocol = Protocol::Udp);
        }
        _ => {}
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stay_in_their_ranges() {
        for (family, service_net, pod_net) in [(Family::V4, "10.96", "10.128"), (Family::V6, "fd96", "fd80")]
        {
            assert!(cluster_ip(family, 0).to_string().starts_with(service_net));
            assert!(pod_ip(family, 0).to_string().starts_with(pod_net));
        }
        assert_eq!(cluster_ip(Family::V4, 60_000).to_string(), "10.96.234.112");
        assert_eq!(pod_ip(Family::V4, SPARE + 300_000).to_string(), "10.196.147.240");
    }

    #[test]
    fn no_pod_is_behind_two_services() {
        assert_eq!(pods(0).last().map(|pod| pod + 1), pods(1).first().copied());
        assert!(pods(100_000).iter().all(|pod| *pod < SPARE));
    }
}
