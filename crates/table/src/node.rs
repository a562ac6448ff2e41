//! The node's own elements: node-port addresses, addresses and ServiceCIDRs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use kernel::nft::{Batch, ElementData};
use model::NodePlan;

use crate::bytes::Fields;
use crate::sets::SetName;

pub(crate) fn write_changes(batch: &mut Batch, old: &NodePlan, new: &NodePlan, beside_ipvs: bool) {
    let cidrs = SetName::ServiceCidrs.name();
    write_addresses(batch, SetName::NodeportIps, &old.nodeport_ips, &new.nodeport_ips);
    if beside_ipvs {
        write_addresses(batch, SetName::NodeIps, &old.addresses, &new.addresses);
    }
    for net in old.service_cidrs.iter().filter(|net| !new.service_cidrs.contains(net)) {
        let (start, end) = bounds(net);
        batch.delete_interval(&cidrs, start.as_slice(), end.as_ref().map(Fields::as_slice));
    }
    for net in new.service_cidrs.iter().filter(|net| !old.service_cidrs.contains(net)) {
        let (start, end) = bounds(net);
        batch.add_interval(&cidrs, start.as_slice(), end.as_ref().map(Fields::as_slice));
    }
}

fn write_addresses(batch: &mut Batch, set: SetName, old: &[IpAddr], new: &[IpAddr]) {
    for ip in old.iter().filter(|ip| !new.contains(ip)) {
        batch.delete_element(&set.name(), Fields::new().ip(*ip).as_slice());
    }
    for ip in new.iter().filter(|ip| !old.contains(ip)) {
        batch.add_element(&set.name(), Fields::new().ip(*ip).as_slice(), ElementData::None, None);
    }
}

/// First address of the prefix, and the first one behind it (none behind the last of all).
fn bounds(net: &IpNet) -> (Fields, Option<Fields>) {
    let behind = match net.broadcast() {
        IpAddr::V4(last) => last.to_bits().checked_add(1).map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))),
        IpAddr::V6(last) => last.to_bits().checked_add(1).map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))),
    };
    (Fields::new().ip(net.network()), behind.map(|ip| Fields::new().ip(ip)))
}
