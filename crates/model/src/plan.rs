//! `plan`: one service, its endpoints and this node in; where its packets go out. Per family, pure.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;

use ipnet::IpNet;

use crate::{EndpointSlice, Family, NodeView, Protocol, Service, ServicePort, TrafficPolicy};
use fronts::{Fronts, Taken};
use limit::Share;
use offers::Offers;
use pools::Usable;

mod candidate;
mod choice;
mod fronts;
mod limit;
mod offers;
mod pools;
mod ports;
mod share;
#[cfg(test)]
mod tests;
mod why;

pub use choice::NotUsed;
pub use limit::{Excess, MOST_OF_IPVS, MOST_WEIGHT};
pub use ports::Ports;
pub use share::merged_ports;
pub use why::{ExplainedEndpoint, explain_endpoints};

/// Settings of the agent that decide over packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Rewrite the source of all cluster-IP traffic, not only of that from outside the cluster.
    pub masquerade_all: bool,
    /// Serve no `externalIPs`: who may write a Service could else take traffic for any address (CVE-2020-8554).
    pub ignore_external_ips: bool,
}

/// Everything one service asks of the data plane, for one family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServicePlan {
    /// The live cluster IP: its unlisted ports are rejected.
    pub cluster_ip: Option<IpAddr>,
    /// The node answers health checks of a load balancer here, whatever firewall it has.
    pub health_check_port: Option<NonZeroU16>,
    pub ports: Ports,
    /// What is not served because the service asks for too much.
    pub excess: Excess,
}

impl ServicePlan {
    /// The same with no client pinned to an endpoint.
    pub fn without_affinity(mut self) -> ServicePlan {
        self.ports.for_each_mut(|port| {
            if port.affinity_seconds.is_some() {
                Arc::make_mut(port).affinity_seconds = None;
            }
        });
        self
    }

    /// About how many objects the service is in the kernel.
    pub fn weight(&self) -> usize {
        self.ports.iter().map(|port| port.weight()).sum()
    }
}

impl ServicePlan {
    /// The port of this name and protocol, the first if there are several.
    pub fn port(&self, name: &str, protocol: Protocol) -> Option<&Arc<PortPlan>> {
        let first = self.ports.partition_point(|port| (&*port.name, port.protocol) < (name, protocol));
        self.ports.get(first).filter(|port| *port.name == *name && port.protocol == protocol)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortPlan {
    pub name: Box<str>,
    pub protocol: Protocol,
    /// ClientIP affinity timeout in seconds.
    pub affinity_seconds: Option<u32>,
    /// Endpoints for traffic of policy Cluster, sorted; empty if nothing uses them.
    pub cluster_pool: Box<[PlannedEndpoint]>,
    /// Endpoints for traffic of policy Local, sorted; empty if nothing uses them.
    pub local_pool: Box<[PlannedEndpoint]>,
    pub destinations: Box<[Destination]>,
}

impl PortPlan {
    pub fn pool(&self, pool: Pool) -> &[PlannedEndpoint] {
        match pool {
            Pool::Cluster => &self.cluster_pool,
            Pool::Local => &self.local_pool,
        }
    }
}

/// A usable endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlannedEndpoint {
    pub ip: IpAddr,
    pub port: u16,
    /// It may come to this node as its own client (hairpin): it runs here, or its node is unknown, or pods of other
    /// nodes are short-circuited to it too.
    pub may_be_own_client: bool,
}

/// One address and port at which clients find the service port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    pub at: Address,
    pub role: Role,
    pub routing: Routing,
    /// `Some`: only these sources may open connections; all others are dropped. Shared by the addresses of a service.
    pub allowed_sources: Option<Arc<AllowedSources>>,
}

impl Destination {
    /// The sources that may open connections, each once; none if everybody may.
    pub fn sources(&self) -> impl Iterator<Item = IpNet> {
        let allowed = self.allowed_sources.as_ref();
        let own = match self.at {
            Address::Vip(ip, _) => allowed.filter(|allowed| allowed.itself).map(|_| IpNet::from(ip)),
            Address::NodePort(_) => None,
        };
        let nets = allowed.map(|allowed| &*allowed.nets).unwrap_or_default();
        nets.iter().copied().chain(own.filter(|own| nets.binary_search(own).is_err()))
    }
}

/// Who may use a load-balancer address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedSources {
    /// Sorted; never empty, never a /0.
    pub nets: Box<[IpNet]>,
    /// The address itself may, too: the node that has it comes with it as its source.
    pub itself: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// A cluster, external or load-balancer address with the service's port.
    Vip(IpAddr, u16),
    /// A port on every node-port address of this node.
    NodePort(u16),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Vip(ip, port) => write!(f, "{}", SocketAddr::new(*ip, *port)),
            Address::NodePort(port) => write!(f, "node port {port}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    ClusterIp,
    ExternalIp,
    LoadBalancerIp,
    NodePort,
}

/// Which client is sent where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// One answer for every client.
    Same(Verdict, Masquerade),
    /// External traffic of policy Local: clients from outside stay on this node and keep their address;
    /// pods of this node and the node itself are short-circuited to all endpoints (the node masqueraded).
    Split { outside: Verdict, inside: Verdict },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// To a random endpoint of the pool, which is not empty.
    Forward(Pool),
    /// No usable endpoint anywhere: TCP RST or ICMP port unreachable.
    Reject,
    /// Endpoints exist, but none on this node for policy Local: silence, so that a balancer looks elsewhere.
    Drop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pool {
    Cluster,
    Local,
}

impl Pool {
    pub const BOTH: [Pool; 2] = [Pool::Cluster, Pool::Local];
}

/// Whose source address is rewritten on the way to the endpoint. Hairpin traffic always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Masquerade {
    /// Clients that detect-local does not recognise as pods of this node.
    Outsiders,
    Everyone,
}

/// Plan one service for one family.
///
/// The result does not depend on the order of slices, endpoints or ports, except that of two ports with the same
/// protocol and number the first listed has the address.
pub fn plan(
    service: &Service,
    slices: &[EndpointSlice<'_>],
    node: &NodeView,
    settings: &Settings,
    family: Family,
) -> ServicePlan {
    let Some(fronts) = Fronts::of(service, node, settings, family) else {
        return ServicePlan::default();
    };
    let mut offers = Offers::of(slices, node, family);
    let mut taken = Taken::new();
    let mut share = Share::whole();
    let mut ports: Vec<PortPlan> = Vec::with_capacity(service.ports.len());
    for port in &service.ports {
        // Before its addresses are looked at: ports times addresses may be more than memory holds.
        if share.is_used_up() {
            share.excess.ports += 1;
            continue;
        }
        let found = fronts.of_port(port, &mut taken);
        if found.is_empty() {
            continue;
        }
        let Some(usable) = offers.usable(&port.name, port.protocol) else {
            share.excess.ports += 1;
            continue;
        };
        ports.extend(share.take(plan_port(service, port, found, &fronts, &usable, settings)));
    }
    ports.sort_by(|a, b| (&a.name, a.protocol).cmp(&(&b.name, b.protocol)));
    ServicePlan {
        cluster_ip: service.cluster_ip(family),
        health_check_port: service.health_check_node_port,
        ports: ports.into_iter().collect(),
        excess: share.excess,
    }
}

fn plan_port(
    service: &Service,
    port: &ServicePort,
    found: Vec<(Role, Address)>,
    fronts: &Fronts,
    usable: &Usable<'_>,
    settings: &Settings,
) -> PortPlan {
    let inside = found.iter().any(|(role, _)| *role == Role::ClusterIp).then_some(service.internal_policy);
    let outside = found.iter().any(|(role, _)| *role != Role::ClusterIp).then_some(service.external_policy);
    let local_used = [inside, outside].contains(&Some(TrafficPolicy::Local));
    // Any way in from outside needs all endpoints: for its own policy, or for the short circuit of Local.
    let cluster_used = inside == Some(TrafficPolicy::Cluster) || outside.is_some();
    // A detector may take pods of other nodes for its own, and short-circuit them.
    let from_anywhere = outside == Some(TrafficPolicy::Local);
    let cluster_pool = if cluster_used { usable.cluster_pool(from_anywhere) } else { Box::default() };
    let local_pool = if local_used { usable.local_pool() } else { Box::default() };

    let answers = Answers { usable: !usable.is_empty(), local: !local_pool.is_empty() };
    let destinations = found.into_iter().map(|(role, at)| Destination {
        at,
        role,
        routing: match role {
            Role::ClusterIp => answers.cluster_ip(service.internal_policy, settings),
            _ => answers.external(service.external_policy),
        },
        allowed_sources: match role {
            Role::LoadBalancerIp => fronts.allowed_sources.clone(),
            _ => None,
        },
    });
    let destinations = destinations.collect();
    let (name, protocol) = (port.name.clone(), port.protocol);
    let affinity_seconds = service.affinity_seconds;
    PortPlan { name, protocol, affinity_seconds, cluster_pool, local_pool, destinations }
}

/// What the endpoints of a port allow to say to its clients.
struct Answers {
    /// There is a usable endpoint, here or elsewhere. The cluster pool, if used, is then not empty.
    usable: bool,
    /// There is one on this node, and policy Local is in use.
    local: bool,
}

impl Answers {
    fn by_policy(&self, policy: TrafficPolicy) -> Verdict {
        match policy {
            _ if !self.usable => Verdict::Reject,
            TrafficPolicy::Cluster => Verdict::Forward(Pool::Cluster),
            TrafficPolicy::Local if self.local => Verdict::Forward(Pool::Local),
            TrafficPolicy::Local => Verdict::Drop,
        }
    }

    fn cluster_ip(&self, policy: TrafficPolicy, settings: &Settings) -> Routing {
        let masquerade = if settings.masquerade_all { Masquerade::Everyone } else { Masquerade::Outsiders };
        Routing::Same(self.by_policy(policy), masquerade)
    }

    fn external(&self, policy: TrafficPolicy) -> Routing {
        let outside = self.by_policy(policy);
        match policy {
            TrafficPolicy::Cluster => Routing::Same(outside, Masquerade::Everyone),
            // Nothing is forwarded, so there is nothing to split.
            TrafficPolicy::Local if !self.usable => Routing::Same(outside, Masquerade::Outsiders),
            TrafficPolicy::Local => {
                Routing::Split { outside, inside: self.by_policy(TrafficPolicy::Cluster) }
            }
        }
    }
}
