//! What a load balancer learns about a service, and where it asks. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cluster::ClusterState;
use ipnet::IpNet;
use model::{EndpointSlice, Family, NodePortAddresses, NodeView};

use super::Check;
use web::listener::unspecified;

/// The check of a service in one family, if it has one.
pub(super) fn check(state: &ClusterState, key: &str, node: &str, family: Family) -> Option<Check> {
    let service = state.service(key)?;
    let port = service.health_check_node_port?.get();
    service.cluster_ip(family)?;
    Some(Check { port, endpoints: endpoints(&state.slices(key), node, family) })
}

/// Ready endpoints on this node, each address once.
fn endpoints(slices: &[EndpointSlice<'_>], node: &str, family: Family) -> usize {
    let of_slices = slices.iter().filter(|slice| !slice.ports.is_empty()).flat_map(|slice| &slice.endpoints);
    let here = of_slices.filter(|endpoint| endpoint.ready && endpoint.node == Some(node));
    here.map(|endpoint| endpoint.ip)
        .filter(|ip| Family::of(*ip) == family)
        .collect::<BTreeSet<IpAddr>>()
        .len()
}

/// Where the ports of a family are opened, sorted: where all addresses serve, on none in particular.
pub(super) fn addresses(node: &NodeView, selection: &NodePortAddresses, family: Family) -> Vec<IpAddr> {
    let all = || vec![unspecified(family)];
    let primary = node.primary[family.index()].into_iter();
    let within = |nets: &[IpNet]| listed(node, nets, family);
    let mut chosen = match selection {
        NodePortAddresses::All => all(),
        NodePortAddresses::Primary => primary.collect(),
        NodePortAddresses::Within(nets) if !nets.iter().any(|net| Family::of_net(net) == family) => all(),
        NodePortAddresses::Within(nets) => within(nets).unwrap_or_else(all),
        NodePortAddresses::PrimaryAndWithin(nets) => {
            within(nets).map_or_else(all, |ips| primary.chain(ips).collect())
        }
    };
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

/// The addresses inside the prefixes; `None` if one of them is the whole family.
fn listed(node: &NodeView, nets: &[IpNet], family: Family) -> Option<Vec<IpAddr>> {
    if nets.iter().any(|net| Family::of_net(net) == family && net.prefix_len() == 0) {
        return None;
    }
    let is_within = |ip: &&IpAddr| nets.iter().any(|net| Family::of(**ip) == family && net.contains(*ip));
    Some(node.addresses.iter().filter(is_within).filter(|ip| can_listen(ip)).copied().collect())
}

/// An IPv6 link-local address names nothing without its link.
fn can_listen(ip: &IpAddr) -> bool {
    !matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Endpoint, Protocol, SlicePort};

    fn endpoint(ip: &str, node: &'static str, ready: bool) -> Endpoint<'static> {
        let ip = ip.parse().unwrap();
        Endpoint { ip, ready, serving: true, terminating: !ready, node: Some(node), hints: None }
    }

    #[test]
    fn only_ready_endpoints_of_this_node_count_and_each_once() {
        let ports = [SlicePort { name: "".into(), protocol: Protocol::Tcp, port: 80 }];
        let slice = |endpoints| EndpointSlice { ports: &ports, endpoints };
        let slices = [
            slice(vec![endpoint("10.1.0.1", "n", true), endpoint("10.1.0.2", "n", false)]),
            slice(vec![endpoint("10.1.0.1", "n", true), endpoint("10.1.0.3", "m", true)]),
            slice(vec![endpoint("fd00::1", "n", true), endpoint("fd00::2", "n", true)]),
            EndpointSlice { ports: &[], endpoints: vec![endpoint("10.1.0.9", "n", true)] },
        ];
        assert_eq!(endpoints(&slices, "n", Family::V4), 1);
        assert_eq!(endpoints(&slices, "n", Family::V6), 2);
        assert_eq!(endpoints(&slices, "other", Family::V4), 0);
    }

    #[test]
    fn addresses_follow_the_selection() {
        let addresses_of = ["127.0.0.1", "10.0.0.7", "192.0.2.7", "fe80::7", "2001:db8::7"];
        let node = NodeView {
            name: "n".into(),
            zone: None,
            primary: [Some("10.0.0.7".parse().unwrap()), None],
            addresses: addresses_of.iter().map(|ip| ip.parse().unwrap()).collect(),
        };
        let within =
            |nets: &[&str]| NodePortAddresses::Within(nets.iter().map(|net| net.parse().unwrap()).collect());
        let and = |nets: &[&str]| {
            NodePortAddresses::PrimaryAndWithin(nets.iter().map(|net| net.parse().unwrap()).collect())
        };
        let cases: [(NodePortAddresses, Family, &[&str]); 12] = [
            (NodePortAddresses::All, Family::V4, &["0.0.0.0"]),
            (NodePortAddresses::All, Family::V6, &["::"]),
            (NodePortAddresses::Primary, Family::V4, &["10.0.0.7"]),
            (NodePortAddresses::Primary, Family::V6, &[]),
            (within(&["10.0.0.0/8", "192.0.2.0/24"]), Family::V4, &["10.0.0.7", "192.0.2.7"]),
            (within(&["10.0.0.0/8"]), Family::V6, &["::"]),
            (within(&["10.0.0.0/8", "0.0.0.0/0"]), Family::V4, &["0.0.0.0"]),
            (within(&["127.0.0.0/8"]), Family::V4, &["127.0.0.1"]),
            (within(&["fe80::/10", "2001:db8::/32"]), Family::V6, &["2001:db8::7"]),
            (and(&["192.0.2.0/24"]), Family::V4, &["10.0.0.7", "192.0.2.7"]),
            (and(&["192.0.2.0/24"]), Family::V6, &[]),
            (and(&["0.0.0.0/0"]), Family::V4, &["0.0.0.0"]),
        ];
        for (selection, family, wanted) in cases {
            let wanted: Vec<IpAddr> = wanted.iter().map(|ip| ip.parse().unwrap()).collect();
            assert_eq!(addresses(&node, &selection, family), wanted, "{selection:?} {family}");
        }
    }
}
