//! The node the agent runs on, and what it means for every service alike.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::{Family, NodePortAddresses};

/// What is known of this node right now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    pub name: String,
    pub zone: Option<String>,
    /// The primary address of each family ([`Family::index`]).
    pub primary: [Option<IpAddr>; 2],
    /// Every address configured on the node, from the kernel.
    pub addresses: Vec<IpAddr>,
}

/// How traffic of pods on this node is told from everything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalDetector {
    /// Nothing known: no source counts as a pod.
    None,
    /// The source lies in one of these prefixes (at most one a family is used).
    Cidrs(Vec<IpNet>),
    /// The packet came in through this bridge.
    Bridge(String),
    /// The packet came in through an interface of this name prefix.
    InterfacePrefix(String),
}

/// The part of the rules that belongs to the node and not to a service, for one family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePlan {
    /// Addresses that serve node ports, sorted.
    pub nodeport_ips: Vec<IpAddr>,
    /// ServiceCIDRs, overlaps merged, sorted.
    pub service_cidrs: Vec<IpNet>,
}

/// Choose the node-port addresses and merge the ServiceCIDRs of one family.
pub fn plan_node(
    node: &NodeView,
    selection: &NodePortAddresses,
    service_cidrs: &[IpNet],
    family: Family,
) -> NodePlan {
    let chosen = |ip: &IpAddr| match selection {
        NodePortAddresses::Primary => node.primary[family.index()] == Some(*ip),
        NodePortAddresses::All => !ip.is_loopback(),
        NodePortAddresses::Within(nets) => nets.iter().any(|net| net.contains(ip)),
    };
    let primary = node.primary[family.index()];
    let mut nodeport_ips: Vec<IpAddr> = node
        .addresses
        .iter()
        .chain(primary.as_ref())
        .copied()
        .filter(|ip| Family::of(*ip) == family && chosen(ip))
        .collect();
    nodeport_ips.sort_unstable();
    nodeport_ips.dedup();
    let of_family: Vec<IpNet> =
        service_cidrs.iter().filter(|net| Family::of_net(net) == family).copied().collect();
    let mut service_cidrs = IpNet::aggregate(&of_family);
    service_cidrs.sort_unstable();
    NodePlan { nodeport_ips, service_cidrs }
}
