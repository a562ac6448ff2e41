//! `plan`: one service, its endpoints and this node in; where its packets go out. Per family, pure.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::{EndpointSlice, Family, NodeView, Protocol, Service};

/// Settings of the agent that decide over packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Rewrite the source of all cluster-IP traffic, not only of that from outside the cluster.
    pub masquerade_all: bool,
}

/// Everything one service asks of the data plane, for one family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServicePlan {
    /// The live cluster IP: its unlisted ports are rejected.
    pub cluster_ip: Option<IpAddr>,
    /// ClientIP affinity timeout in seconds.
    pub affinity_seconds: Option<u32>,
    pub ports: Box<[PortPlan]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortPlan {
    pub name: Box<str>,
    pub protocol: Protocol,
    /// Endpoints for traffic of policy Cluster, sorted; empty if nothing uses them.
    pub cluster_pool: Box<[Backend]>,
    /// Endpoints for traffic of policy Local, sorted; empty if nothing uses them.
    pub local_pool: Box<[Backend]>,
    pub destinations: Box<[Destination]>,
}

impl PortPlan {
    pub fn pool(&self, pool: Pool) -> &[Backend] {
        match pool {
            Pool::Cluster => &self.cluster_pool,
            Pool::Local => &self.local_pool,
        }
    }
}

/// A usable endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Backend {
    pub ip: IpAddr,
    pub port: u16,
    /// It runs on this node, so it can be its own client (hairpin).
    pub local: bool,
}

/// One address and port at which clients find the service port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    pub at: Address,
    pub role: Role,
    pub routing: Routing,
    /// `Some`: only these sources may open connections (never empty, never a /0); all others are dropped.
    pub allowed_sources: Option<Box<[IpNet]>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// A cluster, external or load-balancer address with the service's port.
    Vip(IpAddr, u16),
    /// A port on every node-port address of this node.
    NodePort(u16),
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pool {
    Cluster,
    Local,
}

/// Whose source address is rewritten on the way to the endpoint. Hairpin traffic always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Masquerade {
    /// Clients that detect-local does not recognise as pods of this node.
    Outsiders,
    Everyone,
}

/// Plan one service for one family.
pub fn plan(
    service: &Service,
    slices: &[EndpointSlice<'_>],
    node: &NodeView,
    settings: &Settings,
    family: Family,
) -> ServicePlan {
    let _ = (service, slices, node, settings, family);
    ServicePlan::default()
}
