//! Node v1 and ServiceCIDR networking.k8s.io → what the proxy needs of them.

use std::net::IpAddr;

use ipnet::IpNet;
use model::Family;

use super::parse;
use super::{Invalid, Outcome, key, object};
use crate::objects;
use crate::{Kind, NodeFacts, Value};

const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
/// Set by the cluster autoscaler before it removes the node.
const GOING_AWAY_TAINT: &str = "ToBeDeletedByClusterAutoscaler";

pub fn node(source: objects::Node) -> Result<Outcome, Invalid> {
    let key = key(Kind::Node, &source.metadata)?;
    let going_away = source.metadata.deletion_timestamp.is_some()
        || source.spec.taints.iter().any(|taint| taint.key == GOING_AWAY_TAINT);
    let facts = NodeFacts {
        zone: source
            .metadata
            .labels
            .get(ZONE_LABEL)
            .filter(|zone| !zone.is_empty())
            .map(|zone| (**zone).into()),
        primary: primary(&source)?,
        pod_cidrs: pod_cidrs(&source)?,
        eligible: !going_away,
    };
    Ok(object(key, Value::Node(facts)))
}

/// Per family: the first InternalIP, failing that the first ExternalIP.
fn primary(source: &objects::Node) -> Result<[Option<IpAddr>; 2], Invalid> {
    let mut primary = [None; 2];
    for wanted in ["InternalIP", "ExternalIP"] {
        for (i, address) in source.status.addresses.iter().enumerate().filter(|(_, a)| a.type_ == wanted) {
            let ip = parse::ip(format_args!("status.addresses[{i}].address"), &address.address)?;
            let slot = match Family::of(ip) {
                Family::V4 => &mut primary[0],
                Family::V6 => &mut primary[1],
            };
            slot.get_or_insert(ip);
        }
    }
    Ok(primary)
}

fn pod_cidrs(source: &objects::Node) -> Result<Box<[IpNet]>, Invalid> {
    if source.spec.pod_cidrs.is_empty() {
        let single = source.spec.pod_cidr.as_deref().filter(|text| !text.is_empty());
        return single.map(|text| parse::cidr(format_args!("spec.podCIDR"), text)).into_iter().collect();
    }
    let cidrs = source.spec.pod_cidrs.iter().enumerate();
    cidrs.map(|(i, text)| parse::cidr(format_args!("spec.podCIDRs[{i}]"), text)).collect()
}

pub fn service_cidr(source: objects::ServiceCidr) -> Result<Outcome, Invalid> {
    let key = key(Kind::ServiceCidr, &source.metadata)?;
    let cidrs = source.spec.cidrs.iter().enumerate();
    let cidrs: Result<Box<[IpNet]>, _> =
        cidrs.map(|(i, text)| parse::cidr(format_args!("spec.cidrs[{i}]"), text)).collect();
    Ok(object(key, Value::ServiceCidr(cidrs?)))
}
