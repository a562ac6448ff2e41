//! EndpointSlice discovery.k8s.io/v1 → [`SliceRecord`].

use std::net::IpAddr;

use model::{Family, Hints, SlicePort};

use super::parse;
use super::{Flaws, Invalid, Skip, Translated, key, namespace, object, skipped, skipped_by_label};
use crate::objects::pairs::{SERVICE_NAME, TRIGGER_TIME};
use crate::objects::{self, Endpoint, EndpointConditions, EndpointPort, Named, shown};
use crate::timestamp;
use crate::{EndpointRecord, Kind, SliceRecord, Value};

pub fn endpoint_slice(source: objects::EndpointSlice) -> Result<Translated, Invalid> {
    let key = key(Kind::EndpointSlice, &source.metadata)?;
    if let Some(skip) = skipped_by_label(&source.metadata) {
        return Ok(skipped(key, skip));
    }
    let Some(family) = family(&source)? else { return Ok(skipped(key, Skip::Fqdn)) };
    let Some(service) = source.metadata.labels.get(SERVICE_NAME).filter(|name| !name.is_empty()) else {
        return Ok(skipped(key, Skip::NoService));
    };
    let mut flaws = Flaws::default();
    let record = SliceRecord {
        service: format!("{}/{service}", namespace(&source.metadata)).into(),
        family,
        ports: ports(&source, &mut flaws),
        endpoints: endpoints(&source, family, &mut flaws),
        // Only a metric depends on it, so a malformed one is not worth a word.
        triggered_ms: source
            .metadata
            .annotations
            .get(TRIGGER_TIME)
            .and_then(|text| timestamp::parse_millis(&text)),
    };
    Ok(object(key, Value::EndpointSlice(record), flaws))
}

/// `None` for slices of host names.
fn family(source: &objects::EndpointSlice) -> Result<Option<Family>, Invalid> {
    let types = [("IPv4", Some(Family::V4)), ("IPv6", Some(Family::V6)), ("FQDN", None)];
    parse::one_of("addressType", source.address_type.as_ref(), &types)
}

fn ports(source: &objects::EndpointSlice, flaws: &mut Flaws) -> Box<[SlicePort]> {
    source.ports.iter().enumerate().filter_map(|(i, given)| port(given, i, flaws)).collect()
}

/// A port without a number stands for "every port", which no service port can be mapped to. One whose number is none is kept
/// as 0, which is never used: a service then has such a port, and the reason is another.
fn port(given: &EndpointPort, i: usize, flaws: &mut Flaws) -> Option<SlicePort> {
    let number = given.port?;
    let protocol = parse::protocol(format_args!("ports[{i}].protocol"), given.protocol.as_ref());
    Some(SlicePort {
        name: given.name.as_ref().map(shown).unwrap_or_default().into(),
        protocol: flaws.take(protocol)?,
        port: flaws.take(parse::port(format_args!("ports[{i}].port"), number)).unwrap_or_default(),
    })
}

fn endpoints(source: &objects::EndpointSlice, family: Family, flaws: &mut Flaws) -> Vec<EndpointRecord> {
    let mut records = Vec::with_capacity(source.endpoints.len());
    for (i, endpoint) in source.endpoints.iter().enumerate() {
        records.extend(flaws.take(address(endpoint, i, family)).map(|ip| record(endpoint, ip)));
    }
    records
}

/// The first address; consumers of the API agree on ignoring the others.
fn address(endpoint: &Endpoint, i: usize, family: Family) -> Result<IpAddr, Invalid> {
    let Some(text) = endpoint.addresses.first() else {
        return Err(Invalid::new(format!("endpoints[{i}].addresses"), "is empty"));
    };
    let ip = parse::ip(format_args!("endpoints[{i}].addresses[0]"), text)?;
    if Family::of(ip) != family {
        let field = format!("endpoints[{i}].addresses[0]");
        return Err(Invalid::new(field, format!("{ip} is not of addressType {family}")));
    }
    Ok(ip)
}

fn record(endpoint: &Endpoint, ip: IpAddr) -> EndpointRecord {
    let EndpointConditions { ready, serving, terminating } = endpoint.conditions;
    EndpointRecord {
        ip,
        ready: ready.unwrap_or(true),
        // Upstream reads it so, whatever `ready` says: a terminating endpoint without it can be fallen back on.
        serving: serving.unwrap_or(true),
        terminating: terminating.unwrap_or(false),
        node: endpoint.node_name.as_ref().filter(|name| !name.is_empty()).map(|name| shown(name).into()),
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
        named.iter().filter(|n| !n.name.is_empty()).map(|n| shown(&n.name).into()).collect();
    names.sort_unstable();
    names.dedup();
    names.into()
}
