//! EndpointSlice discovery.k8s.io/v1 → [`SliceRecord`].

use std::net::IpAddr;

use model::{Family, Hints, SlicePort};

use super::parse;
use super::{Invalid, Outcome, Skip, key, namespace, object, skipped_by_label};
use crate::objects::{self, Endpoint, EndpointConditions, Named};
use crate::timestamp;
use crate::{EndpointRecord, Kind, SliceRecord, Value};

const SERVICE_LABEL: &str = "kubernetes.io/service-name";
const TRIGGER_ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

pub fn endpoint_slice(source: objects::EndpointSlice) -> Result<Outcome, Invalid> {
    let key = key(Kind::EndpointSlice, &source.metadata)?;
    if let Some(skip) = skipped_by_label(&source.metadata) {
        return Ok(Outcome::Skipped(key, skip));
    }
    let Some(family) = family(&source)? else { return Ok(Outcome::Skipped(key, Skip::Fqdn)) };
    let labels = &source.metadata.labels;
    let Some(service) = labels.get(SERVICE_LABEL).filter(|name| !name.is_empty()) else {
        return Ok(Outcome::Skipped(key, Skip::NoService));
    };
    let record = SliceRecord {
        service: format!("{}/{service}", namespace(&source.metadata)).into(),
        family,
        ports: ports(&source)?,
        endpoints: endpoints(&source, family)?,
        // Only a metric depends on it, so a malformed one is no reason to refuse the endpoints.
        triggered_ms: source
            .metadata
            .annotations
            .get(TRIGGER_ANNOTATION)
            .and_then(|t| timestamp::parse_millis(t)),
    };
    Ok(object(key, Value::EndpointSlice(record)))
}

/// `None` for slices of host names.
fn family(source: &objects::EndpointSlice) -> Result<Option<Family>, Invalid> {
    let types = [("IPv4", Some(Family::V4)), ("IPv6", Some(Family::V6)), ("FQDN", None)];
    parse::one_of("addressType", source.address_type.as_deref(), &types)
}

/// A port without a number stands for "every port", which no service port can be mapped to.
fn ports(source: &objects::EndpointSlice) -> Result<Box<[SlicePort]>, Invalid> {
    let mut ports = Vec::with_capacity(source.ports.len());
    for (i, given) in source.ports.iter().enumerate() {
        let Some(number) = given.port else { continue };
        ports.push(SlicePort {
            name: given.name.as_deref().unwrap_or_default().into(),
            protocol: parse::protocol(format_args!("ports[{i}].protocol"), given.protocol.as_deref())?,
            port: parse::port(format_args!("ports[{i}].port"), number)?,
        });
    }
    Ok(ports.into())
}

fn endpoints(source: &objects::EndpointSlice, family: Family) -> Result<Vec<EndpointRecord>, Invalid> {
    let mut records = Vec::with_capacity(source.endpoints.len());
    for (i, endpoint) in source.endpoints.iter().enumerate() {
        records.push(record(endpoint, address(endpoint, i, family)?));
    }
    Ok(records)
}

/// The first address; consumers of the API agree on ignoring the others.
fn address(endpoint: &Endpoint, i: usize, family: Family) -> Result<IpAddr, Invalid> {
    let field = format_args!("endpoints[{i}].addresses").to_string();
    let Some(text) = endpoint.addresses.first() else { return Err(Invalid::new(field, "is empty")) };
    let ip = parse::ip(format_args!("{field}[0]"), text)?;
    if Family::of(ip) != family {
        return Err(Invalid::new(format!("{field}[0]"), format!("{ip} is not of addressType {family}")));
    }
    Ok(ip)
}

fn record(endpoint: &Endpoint, ip: IpAddr) -> EndpointRecord {
    let EndpointConditions { ready, serving, terminating } = endpoint.conditions;
    let ready = ready.unwrap_or(true);
    EndpointRecord {
        ip,
        ready,
        serving: serving.unwrap_or(ready),
        terminating: terminating.unwrap_or(false),
        node: endpoint.node_name.as_deref().filter(|name| !name.is_empty()).map(Into::into),
        hints: hints(endpoint),
    }
}

fn hints(endpoint: &Endpoint) -> Option<Hints> {
    let hints = Hints { zones: names(&endpoint.hints.for_zones), nodes: names(&endpoint.hints.for_nodes) };
    (!hints.zones.is_empty() || !hints.nodes.is_empty()).then_some(hints)
}

/// Sorted: the order says nothing, and equal hints are kept once.
fn names(named: &[Named]) -> Box<[Box<str>]> {
    let mut names: Vec<Box<str>> =
        named.iter().map(|n| n.name.as_str()).filter(|name| !name.is_empty()).map(Into::into).collect();
    names.sort_unstable();
    names.dedup();
    names.into()
}
