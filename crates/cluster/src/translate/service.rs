//! Service v1 → [`model::Service`].

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;

use ipnet::IpNet;
use model::{Family, Protocol, Service, ServicePort, TrafficPolicy};

use super::parse;
use super::{Flaws, Invalid, Skip, Translated, key, object, skipped, skipped_by_label};
use crate::objects::{self, ServiceSpec, Text, shown};
use crate::{Kind, Value};

/// The API's default for ClientIP affinity: three hours.
const DEFAULT_AFFINITY_SECONDS: u32 = 10_800;
/// The API's upper bound for it: a day.
const LONGEST_AFFINITY_SECONDS: u32 = 86_400;
/// Sources that no packet has: who may come in where no usable range is left.
const NOBODY: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    ClusterIp,
    NodePort,
    LoadBalancer,
    ExternalName,
}

pub fn service(source: objects::Service) -> Result<Translated, Invalid> {
    let key = key(Kind::Service, &source.metadata)?;
    if let Some(skip) = skipped_by_label(&source.metadata) {
        return Ok(skipped(key, skip));
    }
    let type_ = service_type(&source.spec)?;
    if let Some(skip) = skipped_by_spec(&source.spec, type_) {
        return Ok(skipped(key, skip));
    }
    let mut flaws = Flaws::default();
    let service = translate(&source, type_, &mut flaws)?;
    Ok(object(key, Value::Service(Box::new(service)), flaws))
}

fn service_type(spec: &ServiceSpec) -> Result<Type, Invalid> {
    let types = [
        ("ClusterIP", Type::ClusterIp),
        ("NodePort", Type::NodePort),
        ("LoadBalancer", Type::LoadBalancer),
        ("ExternalName", Type::ExternalName),
        ("", Type::ClusterIp),
    ];
    parse::one_of("spec.type", spec.type_.as_ref(), &types)
}

fn skipped_by_spec(spec: &ServiceSpec, type_: Type) -> Option<Skip> {
    if type_ == Type::ExternalName {
        return Some(Skip::ExternalName);
    }
    match spec.cluster_ip.as_deref().filter(|ip| !ip.is_empty()).or(spec.cluster_ips.first().map(|s| &**s)) {
        Some(b"None") => Some(Skip::Headless),
        None | Some(b"") => Some(Skip::NoClusterIp),
        Some(_) => None,
    }
}

fn translate(source: &objects::Service, type_: Type, flaws: &mut Flaws) -> Result<Service, Invalid> {
    let spec = &source.spec;
    let external_ips = external_ips(spec, flaws);
    let reachable_from_outside = type_ != Type::ClusterIp || !external_ips.is_empty();
    let external_policy = match policy("spec.externalTrafficPolicy", spec.external_traffic_policy.as_ref())? {
        TrafficPolicy::Local if reachable_from_outside => TrafficPolicy::Local,
        _ => TrafficPolicy::Cluster,
    };
    let balanced_locally = type_ == Type::LoadBalancer && external_policy == TrafficPolicy::Local;
    Ok(Service {
        cluster_ips: cluster_ips(spec, flaws)?,
        ports: ports(spec, type_, flaws),
        external_ips,
        load_balancer_ips: if type_ == Type::LoadBalancer {
            load_balancer_ips(source, flaws)
        } else {
            Box::default()
        },
        source_ranges: source_ranges(spec, flaws),
        affinity_seconds: affinity(spec)?,
        internal_policy: policy("spec.internalTrafficPolicy", spec.internal_traffic_policy.as_ref())?,
        external_policy,
        health_check_node_port: health_check_port(spec)?.filter(|_| balanced_locally),
        created: source.metadata.creation_timestamp.map_or(0, |created| created.seconds),
    })
}

fn ips(field: &str, texts: &[Text], flaws: &mut Flaws) -> Box<[IpAddr]> {
    let texts = texts.iter().enumerate();
    texts.filter_map(|(i, text)| flaws.take(parse::ip(format_args!("{field}[{i}]"), text))).collect()
}

fn external_ips(spec: &ServiceSpec, flaws: &mut Flaws) -> Box<[IpAddr]> {
    let ip = |(i, text)| parse::outer_ip(format_args!("spec.externalIPs[{i}]"), text);
    spec.external_ips.iter().enumerate().filter_map(|one| flaws.take(ip(one))).collect()
}

/// One address a family, the first one named. Without any there is no service.
fn cluster_ips(spec: &ServiceSpec, flaws: &mut Flaws) -> Result<Box<[IpAddr]>, Invalid> {
    let Some(first) = spec.cluster_ips.first() else {
        let single = spec.cluster_ip.clone().unwrap_or_default();
        return Ok(Box::new([parse::ip(format_args!("spec.clusterIP"), &single)?]));
    };
    let all = ips("spec.clusterIPs", &spec.cluster_ips, flaws);
    if all.is_empty() {
        parse::ip(format_args!("spec.clusterIPs[0]"), first)?;
    }
    let first = |family| all.iter().position(move |ip| Family::of(*ip) == family);
    let firsts = Family::BOTH.map(first);
    let named = all.iter().copied().enumerate();
    Ok(named.filter(|(i, _)| firsts.contains(&Some(*i))).map(|(_, ip)| ip).collect())
}

fn ports(spec: &ServiceSpec, type_: Type, flaws: &mut Flaws) -> Box<[ServicePort]> {
    let has_node_ports = matches!(type_, Type::NodePort | Type::LoadBalancer);
    let mut ports: Vec<ServicePort> = Vec::with_capacity(spec.ports.len());
    let mut taken: BTreeMap<(Protocol, u16), usize> = BTreeMap::new();
    for (i, source) in spec.ports.iter().enumerate() {
        // Without a node port it still has its other addresses.
        let node_port = parse::optional_port(format_args!("spec.ports[{i}].nodePort"), source.node_port);
        let node_port = flaws.take(node_port).flatten().filter(|_| has_node_ports);
        let Some(port) = flaws.take(port(source, i, node_port)) else { continue };
        // Two entries for one address would be one too many in every kernel table.
        match taken.entry((port.protocol, port.port)) {
            Entry::Occupied(twin) => {
                let message =
                    format!("{} {} is already spec.ports[{}]", port.protocol, port.port, twin.get());
                flaws.note(Invalid::new(format!("spec.ports[{i}]"), message));
            }
            Entry::Vacant(free) => {
                free.insert(i);
                ports.push(port);
            }
        }
    }
    ports.into()
}

fn port(
    source: &objects::ServicePort,
    i: usize,
    node_port: Option<NonZeroU16>,
) -> Result<ServicePort, Invalid> {
    Ok(ServicePort {
        name: source.name.as_ref().map(shown).unwrap_or_default().into(),
        protocol: parse::protocol(format_args!("spec.ports[{i}].protocol"), source.protocol.as_ref())?,
        port: parse::port(format_args!("spec.ports[{i}].port"), source.port.unwrap_or(0))?,
        node_port,
    })
}

/// Addresses the balancer delivers unchanged; with `ipMode: Proxy` packets come in for the node itself.
fn load_balancer_ips(source: &objects::Service, flaws: &mut Flaws) -> Box<[IpAddr]> {
    let mut found = Vec::new();
    for (i, ingress) in source.status.load_balancer.ingress.iter().enumerate() {
        let Some(text) = ingress.ip.as_ref().filter(|ip| !ip.is_empty()) else { continue };
        if ingress.ip_mode.as_deref() != Some(b"Proxy") {
            let field = format_args!("status.loadBalancer.ingress[{i}].ip");
            found.extend(flaws.take(parse::outer_ip(field, text)));
        }
    }
    found.into()
}

/// Who may come in. An entry that is left out must not let more clients in: if no range of a family is left, no
/// client of that family may come in, because no range at all would admit all.
fn source_ranges(spec: &ServiceSpec, flaws: &mut Flaws) -> Box<[IpNet]> {
    let texts = &spec.load_balancer_source_ranges;
    let mut ranges = Vec::with_capacity(texts.len());
    for (i, text) in texts.iter().enumerate() {
        ranges.extend(flaws.take(parse::cidr(format_args!("spec.loadBalancerSourceRanges[{i}]"), text)));
    }
    if ranges.len() < texts.len() {
        let is_open = |nobody: &IpAddr| ranges.iter().all(|net| Family::of_net(net) != Family::of(*nobody));
        let closed: Vec<IpNet> = NOBODY.into_iter().filter(is_open).map(IpNet::from).collect();
        ranges.extend(closed);
    }
    ranges.into()
}

fn affinity(spec: &ServiceSpec) -> Result<Option<u32>, Invalid> {
    let modes = [("ClientIP", true), ("None", false), ("", false)];
    if !parse::one_of("spec.sessionAffinity", spec.session_affinity.as_ref(), &modes)? {
        return Ok(None);
    }
    let Some(given) = spec.session_affinity_config.client_ip.timeout_seconds else {
        return Ok(Some(DEFAULT_AFFINITY_SECONDS));
    };
    let seconds = u32::try_from(given).ok().filter(|s| (1..=LONGEST_AFFINITY_SECONDS).contains(s));
    let bad = || {
        let message = format!("{given} is not a time of 1 to {LONGEST_AFFINITY_SECONDS} seconds");
        Invalid::new("spec.sessionAffinityConfig.clientIP.timeoutSeconds", message)
    };
    seconds.map(Some).ok_or_else(bad)
}

fn policy(field: &str, text: Option<&Text>) -> Result<TrafficPolicy, Invalid> {
    let policies =
        [("Cluster", TrafficPolicy::Cluster), ("Local", TrafficPolicy::Local), ("", TrafficPolicy::Cluster)];
    parse::one_of(field, text, &policies)
}

fn health_check_port(spec: &ServiceSpec) -> Result<Option<NonZeroU16>, Invalid> {
    parse::optional_port(format_args!("spec.healthCheckNodePort"), spec.health_check_node_port)
}
