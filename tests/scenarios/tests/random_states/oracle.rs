//! What must become of a packet, straight from the plans: no map, chain or class of any mode in between.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use model::{
    Address, Destination, Family, Masquerade, NodePlan, PlannedEndpoint, Planner, Pool, PortPlan, Protocol,
    Role, Routing, ServiceKey, Verdict,
};
use test_support::directory::node_addresses;
use test_support::flows::Position;
use test_support::interpreted::StatePlanner;
use test_support::{Carrier, SettingsVariant};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// To one of these; a masqueraded client is seen as the node. Whether it is one is open at an external address that
    /// is another service's cluster IP.
    Forwarded {
        to: Vec<PlannedEndpoint>,
        masqueraded: Option<bool>,
        affine: bool,
    },
    Rejected,
    Dropped,
    /// With the destination it had.
    Untouched,
}

/// All destinations of a state and family, each with its owner's plan.
pub(crate) struct Oracle {
    variant: SettingsVariant,
    node: NodePlan,
    cluster_ips: HashSet<IpAddr>,
    destinations: HashMap<(Protocol, Address), Owned>,
}

struct Owned {
    rank: (usize, i64, ServiceKey),
    port: Arc<PortPlan>,
    destination: Destination,
    affine: bool,
}

impl Oracle {
    pub(crate) fn new(planner: &StatePlanner<'_>, variant: SettingsVariant, family: Family) -> Oracle {
        let mut oracle = Oracle {
            variant,
            node: planner.node(family),
            cluster_ips: HashSet::new(),
            destinations: HashMap::new(),
        };
        for service in planner.services() {
            oracle.add(&service, planner, family);
        }
        oracle
    }

    fn add(&mut self, service: &ServiceKey, planner: &StatePlanner<'_>, family: Family) {
        let Some(planned) = planner.plan(service, family) else { return };
        self.cluster_ips.extend(planned.plan.cluster_ip);
        for port in &planned.plan.ports {
            for destination in &port.destinations {
                // A cluster IP beats a load-balancer address, and that other claims; then age, then the name.
                let better = [Role::ClusterIp, Role::LoadBalancerIp];
                let title = better.iter().position(|role| *role == destination.role).unwrap_or(better.len());
                let rank = (title, planned.created, service.clone());
                let key = (port.protocol, destination.at);
                if self.destinations.get(&key).is_none_or(|owned| rank < owned.rank) {
                    let owned = Owned {
                        rank,
                        port: port.clone(),
                        destination: destination.clone(),
                        affine: port.affinity_seconds.is_some(),
                    };
                    self.destinations.insert(key, owned);
                }
            }
        }
    }

    /// What becomes of it in one mode.
    pub(crate) fn ask(
        &self,
        carrier: Carrier,
        from: Position,
        source: IpAddr,
        protocol: Protocol,
        to: SocketAddr,
    ) -> Answer {
        let at_vip = self.destinations.get(&(protocol, Address::Vip(to.ip(), to.port())));
        let at_node = || {
            let serves = self.node.nodeport_ips.contains(&to.ip());
            serves.then(|| self.destinations.get(&(protocol, Address::NodePort(to.port()))))?
        };
        let Some(owned) = at_vip.or_else(at_node) else { return self.unowned(to.ip()) };
        let is_guarded = owned.destination.allowed_sources.is_some();
        if is_guarded && !owned.destination.sources().any(|net| net.contains(&source)) {
            return Answer::Dropped;
        }
        let (verdict, everyone) = match owned.destination.routing {
            Routing::Same(verdict, masquerade) => (verdict, masquerade == Masquerade::Everyone),
            Routing::Split { inside, .. } if self.variant.is_inside(from) => (inside, from.is_node()),
            Routing::Split { outside, .. } => (outside, false),
        };
        match verdict {
            _ if carrier.is_a_process() && protocol == Protocol::Sctp => Answer::Rejected,
            Verdict::Reject => Answer::Rejected,
            Verdict::Drop => Answer::Dropped,
            Verdict::Forward(pool) => Answer::Forwarded {
                to: owned.port.pool(pool).to_vec(),
                masqueraded: match self.counts_as_cluster_traffic_from_outside(from, to.ip()) {
                    _ if everyone => Some(true),
                    true if owned.destination.role != Role::ClusterIp => None,
                    counts => Some(counts),
                },
                affine: owned.affine,
            },
        }
    }

    /// All endpoints behind a destination, for any client.
    pub(crate) fn endpoints(&self, protocol: Protocol, to: SocketAddr) -> Vec<(IpAddr, u16)> {
        let at = [Address::Vip(to.ip(), to.port()), Address::NodePort(to.port())];
        let owned = at.iter().filter_map(|at| self.destinations.get(&(protocol, *at)));
        let pools = owned.flat_map(|owned| [Pool::Cluster, Pool::Local].map(|pool| owned.port.pool(pool)));
        pools.flatten().map(|endpoint| (endpoint.ip, endpoint.port)).collect()
    }

    fn unowned(&self, ip: IpAddr) -> Answer {
        match ip {
            // Only what is forwarded, not what is for the node itself.
            _ if node_addresses().contains(&ip) => Answer::Untouched,
            _ if self.cluster_ips.contains(&ip) => Answer::Rejected,
            _ if self.node.service_cidrs.iter().any(|net| net.contains(&ip)) => Answer::Dropped,
            _ => Answer::Untouched,
        }
    }

    fn counts_as_cluster_traffic_from_outside(&self, from: Position, ip: IpAddr) -> bool {
        let detects = self.variant != SettingsVariant::NoDetector;
        detects && !self.variant.is_pod(from) && self.cluster_ips.contains(&ip)
    }
}

impl Answer {
    pub(crate) fn forwards(&self) -> bool {
        matches!(self, Answer::Forwarded { .. })
    }

    /// Whether the source is rewritten on the way to this endpoint; `None` if it may be or not.
    pub(crate) fn rewrites(&self, source: IpAddr, endpoint: &PlannedEndpoint) -> Option<bool> {
        let Answer::Forwarded { masqueraded, .. } = self else { return Some(false) };
        // What stays on the node does not pass postrouting.
        let leaves = !node_addresses().contains(&endpoint.ip);
        match endpoint.ip == source {
            _ if !leaves => Some(false),
            true if endpoint.may_be_own_client => Some(true),
            // Another service with this endpoint may expect it.
            true => masqueraded.filter(|masqueraded| *masqueraded),
            false => *masqueraded,
        }
    }
}
