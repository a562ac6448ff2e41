//! Service v1 → [`model::Service`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU16;

use ipnet::IpNet;
use model::{Family, Service, ServicePort, TrafficPolicy};

use super::parse;
use super::{Invalid, Outcome, Skip, key, object, skipped_by_label};
use crate::objects::{self, ServiceSpec};
use crate::{Kind, Value};

/// The API's default for ClientIP affinity: three hours.
const DEFAULT_AFFINITY_SECONDS: u32 = 10_800;
/// The API's upper bound for it: a day.
const LONGEST_AFFINITY_SECONDS: u32 = 86_400;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    ClusterIp,
    NodePort,
    LoadBalancer,
    ExternalName,
}

pub fn service(source: objects::Service) -> Result<Outcome, Invalid> {
    let key = key(Kind::Service, &source.metadata)?;
    if let Some(skip) = skipped_by_label(&source.metadata) {
        return Ok(Outcome::Skipped(key, skip));
    }
    let type_ = service_type(&source.spec)?;
    if let Some(skip) = skipped_by_spec(&source.spec, type_) {
        return Ok(Outcome::Skipped(key, skip));
    }
    Ok(object(key, Value::Service(Box::new(translate(&source, type_)?))))
}

fn service_type(spec: &ServiceSpec) -> Result<Type, Invalid> {
    let types = [
        ("ClusterIP", Type::ClusterIp),
        ("NodePort", Type::NodePort),
        ("LoadBalancer", Type::LoadBalancer),
        ("ExternalName", Type::ExternalName),
        ("", Type::ClusterIp),
    ];
    parse::one_of("spec.type", spec.type_.as_deref(), &types)
}

fn skipped_by_spec(spec: &ServiceSpec, type_: Type) -> Option<Skip> {
    if type_ == Type::ExternalName {
        return Some(Skip::ExternalName);
    }
    match spec.cluster_ip.as_deref().filter(|ip| !ip.is_empty()).or(spec.cluster_ips.first().map(|s| &**s)) {
        Some("None") => Some(Skip::Headless),
        None | Some("") => Some(Skip::NoClusterIp),
        Some(_) => None,
    }
}

fn translate(source: &objects::Service, type_: Type) -> Result<Service, Invalid> {
    let spec = &source.spec;
    let external_ips = ips("spec.externalIPs", &spec.external_ips)?;
    let reachable_from_outside = type_ != Type::ClusterIp || !external_ips.is_empty();
    let external_policy = match policy("spec.externalTrafficPolicy", spec.external_traffic_policy.as_deref())?
    {
        TrafficPolicy::Local if reachable_from_outside => TrafficPolicy::Local,
        _ => TrafficPolicy::Cluster,
    };
    let balanced_locally = type_ == Type::LoadBalancer && external_policy == TrafficPolicy::Local;
    Ok(Service {
        cluster_ips: cluster_ips(spec)?,
        ports: ports(spec, type_)?,
        external_ips,
        load_balancer_ips: if type_ == Type::LoadBalancer {
            load_balancer_ips(source)?
        } else {
            Box::default()
        },
        source_ranges: source_ranges(spec)?,
        affinity_seconds: affinity(spec)?,
        internal_policy: policy("spec.internalTrafficPolicy", spec.internal_traffic_policy.as_deref())?,
        external_policy,
        health_check_node_port: health_check_port(spec)?.filter(|_| balanced_locally),
        created: source.metadata.creation_timestamp.map_or(0, |created| created.seconds),
    })
}

fn ips(field: &str, texts: &[String]) -> Result<Box<[IpAddr]>, Invalid> {
    let texts = texts.iter().enumerate();
    texts.map(|(i, text)| parse::ip(format_args!("{field}[{i}]"), text)).collect()
}

/// One address a family, the first one named.
fn cluster_ips(spec: &ServiceSpec) -> Result<Box<[IpAddr]>, Invalid> {
    let all = if spec.cluster_ips.is_empty() {
        Box::new([parse::ip(format_args!("spec.clusterIP"), spec.cluster_ip.as_deref().unwrap_or_default())?])
    } else {
        ips("spec.clusterIPs", &spec.cluster_ips)?
    };
    let first = |family| all.iter().position(move |ip| Family::of(*ip) == family);
    let firsts = Family::BOTH.map(first);
    let named = all.iter().copied().enumerate();
    Ok(named.filter(|(i, _)| firsts.contains(&Some(*i))).map(|(_, ip)| ip).collect())
}

fn ports(spec: &ServiceSpec, type_: Type) -> Result<Box<[ServicePort]>, Invalid> {
    let has_node_ports = matches!(type_, Type::NodePort | Type::LoadBalancer);
    let mut ports: Vec<ServicePort> = Vec::with_capacity(spec.ports.len());
    let mut places = HashMap::with_capacity(spec.ports.len());
    for (i, source) in spec.ports.iter().enumerate() {
        let node_port = parse::optional_port(format_args!("spec.ports[{i}].nodePort"), source.node_port)?;
        let port = ServicePort {
            name: source.name.as_deref().unwrap_or_default().into(),
            protocol: parse::protocol(format_args!("spec.ports[{i}].protocol"), source.protocol.as_deref())?,
            port: parse::port(format_args!("spec.ports[{i}].port"), source.port.unwrap_or(0))?,
            node_port: node_port.filter(|_| has_node_ports),
        };
        // Two entries for one address would be one too many in every kernel table.
        if let Some(twin) = places.insert((port.protocol, port.port), i) {
            let message = format!("{} {} is already spec.ports[{twin}]", port.protocol, port.port);
            return Err(Invalid::new(format!("spec.ports[{i}]"), message));
        }
        ports.push(port);
    }
    Ok(ports.into())
}

/// Addresses the balancer delivers unchanged; with `ipMode: Proxy` packets come in for the node itself.
fn load_balancer_ips(source: &objects::Service) -> Result<Box<[IpAddr]>, Invalid> {
    let mut found = Vec::new();
    for (i, ingress) in source.status.load_balancer.ingress.iter().enumerate() {
        let Some(text) = ingress.ip.as_deref().filter(|ip| !ip.is_empty()) else { continue };
        if ingress.ip_mode.as_deref() != Some("Proxy") {
            found.push(parse::ip(format_args!("status.loadBalancer.ingress[{i}].ip"), text)?);
        }
    }
    Ok(found.into())
}

fn source_ranges(spec: &ServiceSpec) -> Result<Box<[IpNet]>, Invalid> {
    let ranges = spec.load_balancer_source_ranges.iter().enumerate();
    ranges.map(|(i, text)| parse::cidr(format_args!("spec.loadBalancerSourceRanges[{i}]"), text)).collect()
}

fn affinity(spec: &ServiceSpec) -> Result<Option<u32>, Invalid> {
    let modes = [("ClientIP", true), ("None", false), ("", false)];
    if !parse::one_of("spec.sessionAffinity", spec.session_affinity.as_deref(), &modes)? {
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

fn policy(field: &str, text: Option<&str>) -> Result<TrafficPolicy, Invalid> {
    let policies =
        [("Cluster", TrafficPolicy::Cluster), ("Local", TrafficPolicy::Local), ("", TrafficPolicy::Cluster)];
    parse::one_of(field, text, &policies)
}

fn health_check_port(spec: &ServiceSpec) -> Result<Option<NonZeroU16>, Invalid> {
    parse::optional_port(format_args!("spec.healthCheckNodePort"), spec.health_check_node_port)
}
