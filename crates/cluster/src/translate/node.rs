//! Node v1 and ServiceCIDR networking.k8s.io → what the proxy needs of them.

use std::net::IpAddr;

use ipnet::IpNet;
use model::Family;

use super::parse;
use super::{Flaws, Invalid, Translated, key, object};
use crate::objects::pairs::ZONE;
use crate::objects::{self, Text};
use crate::{Kind, NodeFacts, Value};

/// Set by the cluster autoscaler before it removes the node.
const GOING_AWAY_TAINT: &[u8] = b"ToBeDeletedByClusterAutoscaler";

pub fn node(source: objects::Node) -> Result<Translated, Invalid> {
    let key = key(Kind::Node, &source.metadata)?;
    let going_away = source.metadata.deletion_timestamp.is_some()
        || source.spec.taints.iter().any(|taint| taint.key == GOING_AWAY_TAINT);
    let mut flaws = Flaws::default();
    let facts = NodeFacts {
        zone: source.metadata.labels.get(ZONE).filter(|zone| !zone.is_empty()).map(Into::into),
        primary: primary(&source, &mut flaws),
        pod_cidrs: pod_cidrs(&source, &mut flaws),
        eligible: !going_away,
    };
    Ok(object(key, Value::Node(facts), flaws))
}

/// Per family: the first InternalIP, failing that the first ExternalIP.
fn primary(source: &objects::Node, flaws: &mut Flaws) -> [Option<IpAddr>; 2] {
    let mut primary = [None; 2];
    for wanted in [&b"InternalIP"[..], b"ExternalIP"] {
        for (i, address) in source.status.addresses.iter().enumerate().filter(|(_, a)| a.type_ == wanted) {
            let ip = parse::ip(format_args!("status.addresses[{i}].address"), &address.address);
            let Some(ip) = flaws.take(ip) else { continue };
            let slot = match Family::of(ip) {
                Family::V4 => &mut primary[0],
                Family::V6 => &mut primary[1],
            };
            slot.get_or_insert(ip);
        }
    }
    primary
}

fn pod_cidrs(source: &objects::Node, flaws: &mut Flaws) -> Box<[IpNet]> {
    if !source.spec.pod_cidrs.is_empty() {
        return cidrs("spec.podCIDRs", &source.spec.pod_cidrs, flaws);
    }
    let single = source.spec.pod_cidr.as_ref().filter(|text| !text.is_empty());
    single.and_then(|text| flaws.take(parse::cidr(format_args!("spec.podCIDR"), text))).into_iter().collect()
}

pub fn service_cidr(source: objects::ServiceCidr) -> Result<Translated, Invalid> {
    let key = key(Kind::ServiceCidr, &source.metadata)?;
    let mut flaws = Flaws::default();
    let cidrs = cidrs("spec.cidrs", &source.spec.cidrs, &mut flaws);
    Ok(object(key, Value::ServiceCidr(cidrs), flaws))
}

fn cidrs(field: &str, texts: &[Text], flaws: &mut Flaws) -> Box<[IpNet]> {
    let texts = texts.iter().enumerate();
    texts.filter_map(|(i, text)| flaws.take(parse::cidr(format_args!("{field}[{i}]"), text))).collect()
}
