//! The addresses at which clients find a service, each once, and who may come in through them.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::{Address, AllowedSources, Role};
use crate::{Family, NodeView, Protocol, Service, ServicePort, Settings};

/// What the ports of one service share, for one family.
pub(super) struct Fronts {
    /// Sorted by role and address, no address twice.
    ips: Vec<(Role, IpAddr)>,
    /// Who may use the load-balancer addresses; `None` is everyone.
    pub(super) allowed_sources: Option<Arc<AllowedSources>>,
}

/// So many load-balancer addresses of a service admit each other. With more of them each admits itself only, which is what a
/// node that calls one has as its source: all of them for each would be that number squared.
const MOST_ADMITTED: usize = 32;

/// Destinations that an earlier port of the same service has.
pub(super) type Taken = HashSet<(Protocol, Address)>;

impl Fronts {
    /// `None`: the service does not have this family, whatever other addresses it lists.
    pub(super) fn of(
        service: &Service,
        node: &NodeView,
        settings: &Settings,
        family: Family,
    ) -> Option<Fronts> {
        let cluster_ip = service.cluster_ip(family)?;
        let balancers = || of_family(&service.load_balancer_ips, family);
        let external_ips: &[IpAddr] = if settings.ignore_external_ips { &[] } else { &service.external_ips };
        // An address of several roles keeps the first of this order: the cluster IP is what the cluster relies
        // on, and a load-balancer address must not lose its firewall to the external IP of the same number.
        let claims = std::iter::once((cluster_ip, Role::ClusterIp))
            .chain(balancers().map(|ip| (ip, Role::LoadBalancerIp)))
            .chain(of_family(external_ips, family).map(|ip| (ip, Role::ExternalIp)));
        let mut roles = BTreeMap::new();
        for (ip, role) in claims {
            roles.entry(ip).or_insert(role);
        }
        let mut ips: Vec<_> = roles.into_iter().map(|(ip, role)| (role, ip)).collect();
        ips.sort_unstable();
        let allowed_sources =
            allowed_sources(&service.source_ranges, balancers(), node.primary[family.index()], family);
        Some(Fronts { ips, allowed_sources })
    }

    /// The destinations of one port that no earlier port of the service has, sorted.
    pub(super) fn of_port(&self, port: &ServicePort, taken: &mut Taken) -> Vec<(Role, Address)> {
        let vips = self.ips.iter().map(|(role, ip)| (*role, Address::Vip(*ip, port.port)));
        let node_port = port.node_port.map(|number| (Role::NodePort, Address::NodePort(number.get())));
        vips.chain(node_port).filter(|(_, at)| taken.insert((port.protocol, *at))).collect()
    }
}

fn of_family(ips: &[IpAddr], family: Family) -> impl Iterator<Item = IpAddr> {
    ips.iter().copied().filter(move |ip| Family::of(*ip) == family && !ip.is_unspecified())
}

/// `loadBalancerSourceRanges` of one family, sorted; `None` if they keep no client out. Ranges of the other family
/// alone do not close this one: upstream judges each family by its own list.
fn allowed_sources(
    ranges: &[IpNet],
    balancers: impl Iterator<Item = IpAddr>,
    node_ip: Option<IpAddr>,
    family: Family,
) -> Option<Arc<AllowedSources>> {
    let mut nets: Vec<IpNet> =
        ranges.iter().filter(|net| Family::of_net(net) == family).map(IpNet::trunc).collect();
    if nets.is_empty() || nets.iter().any(|net| net.prefix_len() == 0) {
        return None;
    }
    // A node that may use the balancer may come with one of its addresses as the source, because they can be bound on
    // the node.
    let admits_node = node_ip.is_some_and(|ip| nets.iter().any(|net| net.contains(&ip)));
    let own: Vec<IpNet> = balancers.filter(|_| admits_node).map(IpNet::from).collect();
    let itself = own.len() > MOST_ADMITTED;
    if !itself {
        nets.extend(own);
    }
    nets.sort_unstable();
    nets.dedup();
    Some(Arc::new(AllowedSources { nets: nets.into(), itself }))
}
