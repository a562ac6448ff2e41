//! The node the agent runs on, and what it means for every service alike.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net};

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

/// How traffic of pods on this node is distinguished from everything else.
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
    /// These are all that the node has, by whatever route.
    pub nodeports_everywhere: bool,
    /// Loopback addresses that serve node ports too, by rules; sorted.
    pub nodeport_loopback: Vec<IpNet>,
    /// Loopback addresses on which the agent itself is to serve node ports, sorted.
    pub nodeport_listeners: Vec<IpAddr>,
    /// ServiceCIDRs, overlaps merged, sorted.
    pub service_cidrs: Vec<IpNet>,
    /// The address by which the rest of the cluster knows the node.
    pub primary: Option<IpAddr>,
    /// Every address that the node has, sorted.
    pub addresses: Vec<IpAddr>,
}

/// How node ports are served on loopback addresses, where they are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoopback {
    #[default]
    Never,
    /// By rules, where the kernel can route such packets: IPv4. By listeners for IPv6.
    Rules,
    /// By listeners of the agent.
    Listeners,
}

/// The primary address of a family where no Node object names it: the first that others can reach.
pub fn default_primary(addresses: &[IpAddr], family: Family) -> Option<IpAddr> {
    let reachable = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local() && !ip.is_unspecified(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local() && !ip.is_unspecified(),
    };
    addresses.iter().copied().find(|ip| Family::of(*ip) == family && reachable(ip))
}

/// Choose the node-port addresses and merge the ServiceCIDRs of one family; for `on_loopback` see
/// [`nodeport_loopback`].
pub fn plan_node(
    node: &NodeView,
    selection: &NodePortAddresses,
    on_loopback: OnLoopback,
    service_cidrs: &[IpNet],
    family: Family,
) -> NodePlan {
    let primary = node.primary[family.index()];
    let chosen = |ip: &IpAddr| match selection {
        NodePortAddresses::Primary => primary == Some(*ip),
        NodePortAddresses::All => true,
        NodePortAddresses::Within(nets) => is_within(nets, ip, family),
        NodePortAddresses::PrimaryAndWithin(nets) => {
            primary == Some(*ip) || nets.iter().any(|net| net.contains(ip))
        }
    };
    let mut nodeport_ips: Vec<IpAddr> = node
        .addresses
        .iter()
        .chain(primary.as_ref())
        .copied()
        .filter(|ip| Family::of(*ip) == family && can_serve(ip) && chosen(ip))
        .collect();
    nodeport_ips.sort_unstable();
    nodeport_ips.dedup();
    // Dropping what is for an address that no service has would cut the node off from itself.
    let own = [Some(loopback(family)), primary];
    let has_node = |net: &IpNet| own.iter().flatten().any(|ip| net.contains(ip));
    let of_family = service_cidrs.iter().filter(|net| Family::of_net(net) == family && !has_node(net));
    let of_family: Vec<IpNet> = of_family.copied().collect();
    let mut service_cidrs = IpNet::aggregate(&of_family);
    service_cidrs.sort_unstable();
    let nodeport_listeners = nodeport_listeners(selection, on_loopback, family);
    let nodeport_loopback = nodeport_loopback(selection, on_loopback, family);
    let nodeports_everywhere = is_everywhere(selection, family);
    let of_family = node.addresses.iter().copied().filter(|ip| Family::of(*ip) == family);
    let mut addresses: Vec<IpAddr> = of_family.collect();
    addresses.sort_unstable();
    addresses.dedup();
    NodePlan {
        nodeport_ips,
        nodeports_everywhere,
        nodeport_loopback,
        nodeport_listeners,
        service_cidrs,
        primary,
        addresses,
    }
}

fn loopback(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    }
}

fn is_everywhere(selection: &NodePortAddresses, family: Family) -> bool {
    match selection {
        NodePortAddresses::All => true,
        NodePortAddresses::Within(nets) => {
            let mut of_family = nets.iter().filter(|net| Family::of_net(net) == family).peekable();
            of_family.peek().is_none() || of_family.any(|net| net.prefix_len() == 0)
        }
        NodePortAddresses::PrimaryAndWithin(nets) => {
            nets.iter().any(|net| Family::of_net(net) == family && net.prefix_len() == 0)
        }
        NodePortAddresses::Primary => false,
    }
}

/// Upstream judges each family by its own prefixes: without any, all of it is meant.
fn is_within(nets: &[IpNet], ip: &IpAddr, family: Family) -> bool {
    let mut of_family = nets.iter().filter(|net| Family::of_net(net) == family).peekable();
    of_family.peek().is_none() || of_family.any(|net| net.contains(ip))
}

/// The loopback addresses that serve node ports by rules, sorted: those that the selection means, where the mode does that. All code that routes, guards or accepts such packets asks here: if they disagreed, node ports would be dead, or
/// the node's loopback open to its neighbours. IPv6 has nothing like `route_localnet`: an answer that is to go back to ::1
/// finds no route (seen on 6.18).
pub fn nodeport_loopback(
    selection: &NodePortAddresses,
    on_loopback: OnLoopback,
    family: Family,
) -> Vec<IpNet> {
    match (family, on_loopback) {
        (Family::V4, OnLoopback::Rules) => chosen_loopback(selection, family),
        _ => Vec::new(),
    }
}

/// The loopback addresses on which the agent itself serves node ports, sorted: 127.0.0.1 stands for a prefix that holds it.
pub fn nodeport_listeners(
    selection: &NodePortAddresses,
    on_loopback: OnLoopback,
    family: Family,
) -> Vec<IpAddr> {
    match (family, on_loopback) {
        (_, OnLoopback::Listeners) | (Family::V6, OnLoopback::Rules) => {}
        (_, OnLoopback::Never) | (Family::V4, OnLoopback::Rules) => return Vec::new(),
    }
    let usual = loopback(family);
    let one = |net: IpNet| if net.contains(&usual) { usual } else { net.network() };
    let mut found: Vec<IpAddr> = chosen_loopback(selection, family).into_iter().map(one).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The loopback prefixes that a selection means, sorted.
fn chosen_loopback(selection: &NodePortAddresses, family: Family) -> Vec<IpNet> {
    let whole = match family {
        Family::V4 => IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8)),
        Family::V6 => IpNet::from(loopback(family)),
    };
    let common = |net: &IpNet| match () {
        () if net.contains(&whole) => Some(whole),
        () if whole.contains(net) => Some(net.trunc()),
        () => None,
    };
    let mut found: Vec<IpNet> = match selection {
        NodePortAddresses::Primary => Vec::new(),
        NodePortAddresses::All => vec![whole],
        NodePortAddresses::Within(nets) if !nets.iter().any(|net| Family::of_net(net) == family) => {
            vec![whole]
        }
        NodePortAddresses::Within(nets) | NodePortAddresses::PrimaryAndWithin(nets) => {
            nets.iter().filter_map(common).collect()
        }
    };
    found.sort_unstable();
    found.dedup();
    found
}

/// The prefixes of this family that a selection names and in which the node has none of its addresses, although it has
/// some: most likely not what was meant. Loopback prefixes are judged apart.
pub fn missed_prefixes(node: &NodeView, selection: &NodePortAddresses, family: Family) -> Vec<IpNet> {
    let (NodePortAddresses::Within(nets) | NodePortAddresses::PrimaryAndWithin(nets)) = selection else {
        return Vec::new();
    };
    let named: Vec<IpNet> = nets
        .iter()
        .filter(|net| Family::of_net(net) == family && !net.addr().is_loopback())
        .copied()
        .collect();
    let mut own = node.addresses.iter().filter(|ip| Family::of(**ip) == family && can_serve(ip)).peekable();
    let is_missed = own.peek().is_some() && !own.any(|ip| named.iter().any(|net| net.contains(ip)));
    if is_missed { named } else { Vec::new() }
}

/// Loopback addresses are judged apart, by [`nodeport_loopback`], because the kernel does not route from them unless configured to;
/// an IPv6 link-local address names nothing without its link.
fn can_serve(ip: &IpAddr) -> bool {
    let is_link_local = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    !ip.is_loopback() && !is_link_local
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeView {
        let addresses = ["127.0.0.1", "127.0.0.53", "192.0.2.7", "10.0.0.7", "192.0.2.7", "169.254.20.10"];
        let addresses6 = ["::1", "fe80::7", "2001:db8::7"];
        NodeView {
            name: "n1".into(),
            zone: None,
            primary: [Some("10.0.0.7".parse().unwrap()), Some("2001:db8::7".parse().unwrap())],
            addresses: addresses.iter().chain(&addresses6).map(|ip| ip.parse().unwrap()).collect(),
        }
    }

    fn within(nets: &[&str]) -> NodePortAddresses {
        NodePortAddresses::Within(nets.iter().map(|net| net.parse().unwrap()).collect())
    }

    fn primary_and(nets: &[&str]) -> NodePortAddresses {
        NodePortAddresses::PrimaryAndWithin(nets.iter().map(|net| net.parse().unwrap()).collect())
    }

    #[test]
    fn node_port_addresses() {
        use Family::{V4, V6};
        use NodePortAddresses::{All, Primary, PrimaryAndWithin};
        let all4: &[&str] = &["10.0.0.7", "169.254.20.10", "192.0.2.7"];
        let all6: &[&str] = &["2001:db8::7"];
        let cases: [(NodePortAddresses, Family, &[&str]); 22] = [
            (Primary, V4, &["10.0.0.7"]),
            (Primary, V6, &["2001:db8::7"]),
            (All, V4, all4),
            (All, V6, all6),
            (within(&["0.0.0.0/0", "fd00::/8"]), V4, all4),
            (within(&["0.0.0.0/0", "fd00::/8"]), V6, &[]),
            (within(&["10.0.0.0/8", "::/0"]), V4, &["10.0.0.7"]),
            (within(&["10.0.0.0/8", "::/0"]), V6, all6),
            (within(&["0.0.0.0/1"]), V4, &["10.0.0.7"]),
            (within(&["0.0.0.0/1"]), V6, all6),
            (within(&["192.168.0.0/16"]), V4, &[]),
            (within(&["192.168.0.0/16"]), V6, all6),
            (within(&["127.0.0.0/8", "::1/128"]), V4, &[]),
            (within(&["127.0.0.0/8", "::1/128"]), V6, &[]),
            (within(&["127.0.0.0/8", "10.0.0.0/24"]), V4, &["10.0.0.7"]),
            (within(&["fe80::/10", "2001:db8::/32"]), V6, all6),
            (within(&["fe80::/10"]), V4, all4),
            (primary_and(&["192.0.2.0/24"]), V4, &["10.0.0.7", "192.0.2.7"]),
            (primary_and(&["192.0.2.0/24"]), V6, all6),
            (primary_and(&["127.0.0.0/8", "fd00::/8"]), V4, &["10.0.0.7"]),
            (primary_and(&["0.0.0.0/0"]), V4, all4),
            (primary_and(&["0.0.0.0/0"]), V6, all6),
        ];
        for (selection, family, wanted) in cases {
            let wanted: Vec<IpAddr> = wanted.iter().map(|ip| ip.parse().unwrap()).collect();
            let plan = plan_node(&node(), &selection, OnLoopback::Never, &[], family);
            assert_eq!(plan.nodeport_ips, wanted, "{selection:?} {family}");
            let all: &[&str] = if family == V4 { all4 } else { all6 };
            let is_narrow = match &selection {
                Primary => true,
                PrimaryAndWithin(nets) => family == V6 || nets.iter().all(|net| net.prefix_len() > 0),
                selection => (family, selection) == (V6, &within(&["fe80::/10", "2001:db8::/32"])),
            };
            let is_all = wanted.len() == all.len() && !is_narrow;
            assert_eq!(plan.nodeports_everywhere, is_all, "{selection:?}");
        }
    }

    #[test]
    fn loopback_serves_node_ports_where_it_is_meant() {
        use NodePortAddresses::{All, Primary};
        let cases: [(NodePortAddresses, &[&str]); 10] = [
            (All, &["127.0.0.0/8"]),
            (Primary, &[]),
            (within(&["0.0.0.0/0"]), &["127.0.0.0/8"]),
            (within(&["::/0"]), &["127.0.0.0/8"]),
            (within(&["127.0.0.1/32", "10.0.0.0/8", "::/0"]), &["127.0.0.1/32"]),
            (within(&["10.0.0.0/8", "fd00::/8"]), &[]),
            (primary_and(&["127.0.0.0/8"]), &["127.0.0.0/8"]),
            (primary_and(&["0.0.0.0/0"]), &["127.0.0.0/8"]),
            (primary_and(&["::1/128"]), &[]),
            (primary_and(&["::/0"]), &[]),
        ];
        for (selection, wanted) in cases {
            let of = |on, family| plan_node(&node(), &selection, on, &[], family).nodeport_loopback;
            let found: Vec<String> = of(OnLoopback::Rules, Family::V4).iter().map(IpNet::to_string).collect();
            assert_eq!(found, wanted, "{selection:?}");
            assert!(of(OnLoopback::Never, Family::V4).is_empty(), "{selection:?}");
            assert!(of(OnLoopback::Rules, Family::V6).is_empty(), "{selection:?}");
            assert!(of(OnLoopback::Listeners, Family::V4).is_empty(), "{selection:?}");
        }
    }

    #[test]
    fn listeners_stand_where_no_rule_can() {
        use NodePortAddresses::{All, Primary};
        let cases: [(NodePortAddresses, &[&str], &[&str]); 8] = [
            (All, &["127.0.0.1"], &["::1"]),
            (Primary, &[], &[]),
            (within(&["127.0.0.0/8", "::1/128"]), &["127.0.0.1"], &["::1"]),
            (within(&["127.0.0.0/8"]), &["127.0.0.1"], &["::1"]),
            (within(&["10.0.0.0/8", "fd00::/8"]), &[], &[]),
            (primary_and(&["127.0.0.0/8", "::1/128"]), &["127.0.0.1"], &["::1"]),
            (primary_and(&["127.0.0.53/32", "127.0.0.1/32"]), &["127.0.0.1", "127.0.0.53"], &[]),
            (primary_and(&["::/0"]), &[], &["::1"]),
        ];
        for (selection, v4, v6) in cases {
            let of = |on, family| {
                let plan = plan_node(&node(), &selection, on, &[], family);
                plan.nodeport_listeners.iter().map(IpAddr::to_string).collect::<Vec<_>>()
            };
            assert_eq!(of(OnLoopback::Listeners, Family::V4), v4, "{selection:?}");
            assert_eq!(of(OnLoopback::Listeners, Family::V6), v6, "{selection:?}");
            assert_eq!(of(OnLoopback::Rules, Family::V6), v6, "{selection:?}");
            assert!(of(OnLoopback::Rules, Family::V4).is_empty(), "{selection:?}");
            assert!(of(OnLoopback::Never, Family::V6).is_empty(), "{selection:?}");
        }
    }

    #[test]
    fn prefixes_that_match_nothing_are_found() {
        use Family::{V4, V6};
        let bare = NodeView { addresses: Vec::new(), ..node() };
        let cases: [(NodePortAddresses, Family, bool); 10] = [
            (NodePortAddresses::All, V4, false),
            (NodePortAddresses::Primary, V4, false),
            (within(&["192.168.0.0/16"]), V4, true),
            (within(&["192.168.0.0/16"]), V6, false),
            (within(&["192.168.0.0/16", "10.0.0.0/8"]), V4, false),
            (primary_and(&["192.168.0.0/16"]), V4, true),
            (within(&["127.0.0.0/8", "::1/128"]), V4, false),
            (within(&["fe80::/10"]), V6, true),
            (within(&["2001:db8::/32"]), V6, false),
            (within(&["0.0.0.0/0"]), V4, false),
        ];
        for (selection, family, is_missed) in cases {
            let missed = missed_prefixes(&node(), &selection, family);
            assert_eq!(!missed.is_empty(), is_missed, "{selection:?} {family}: {missed:?}");
            assert!(
                missed_prefixes(&bare, &selection, family).is_empty(),
                "nothing is known of the node yet"
            );
        }
    }

    #[test]
    fn the_primary_address_serves_even_before_the_kernel_lists_it() {
        let node = NodeView { addresses: Vec::new(), ..node() };
        let plan = plan_node(&node, &NodePortAddresses::Primary, OnLoopback::Never, &[], Family::V4);
        assert_eq!(plan.nodeport_ips, ["10.0.0.7".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn a_loopback_primary_address_serves_nothing() {
        let node = NodeView { primary: ["127.0.0.1", "::1"].map(|ip| ip.parse().ok()), ..node() };
        for family in Family::BOTH {
            assert!(
                plan_node(&node, &NodePortAddresses::Primary, OnLoopback::Never, &[], family)
                    .nodeport_ips
                    .is_empty()
            );
        }
    }

    #[test]
    fn service_cidrs_are_merged_per_family() {
        let cidrs: Vec<IpNet> = ["10.97.0.0/16", "10.96.0.0/16", "10.96.3.0/24", "fd00::/112", "10.5.0.0/24"]
            .iter()
            .map(|net| net.parse().unwrap())
            .collect();
        let merged = |family| {
            let plan = plan_node(&node(), &NodePortAddresses::All, OnLoopback::Never, &cidrs, family);
            plan.service_cidrs.iter().map(IpNet::to_string).collect::<Vec<_>>()
        };
        assert_eq!(merged(Family::V4), ["10.5.0.0/24", "10.96.0.0/15"]);
        assert_eq!(merged(Family::V6), ["fd00::/112"]);
    }
    #[test]
    fn a_service_cidr_that_holds_the_node_closes_nothing() {
        let node = node();
        for family in Family::BOTH {
            let primary = node.primary[family.index()].unwrap();
            let all: IpNet = if family == Family::V4 { "0.0.0.0/0" } else { "::/0" }.parse().unwrap();
            for net in [all, IpNet::from(loopback(family)), IpNet::from(primary)] {
                let plan = plan_node(&node, &NodePortAddresses::All, OnLoopback::Never, &[net], family);
                assert_eq!(plan.service_cidrs, [], "{net}");
            }
        }
    }
}
