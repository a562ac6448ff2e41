//! A Service, reduced to what decides where packets go.

use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use ipnet::IpNet;

use crate::{Family, Protocol};

/// `namespace/name`, shared by everything that speaks of the service.
pub type ServiceKey = Arc<str>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrafficPolicy {
    Cluster,
    Local,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// At most one address a family; never empty (headless services are not proxied).
    pub cluster_ips: Box<[IpAddr]>,
    pub ports: Box<[ServicePort]>,
    pub external_ips: Box<[IpAddr]>,
    /// `status.loadBalancer.ingress[].ip`, without those of `ipMode: Proxy`.
    pub load_balancer_ips: Box<[IpAddr]>,
    /// `loadBalancerSourceRanges`, both families; empty allows every source.
    pub source_ranges: Box<[IpNet]>,
    /// ClientIP session affinity, with its timeout in seconds.
    pub affinity_seconds: Option<u32>,
    pub internal_policy: TrafficPolicy,
    pub external_policy: TrafficPolicy,
    pub health_check_node_port: Option<NonZeroU16>,
    /// Seconds since the epoch; the older service keeps an address that two of them claim.
    pub created: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Empty for the only port of a service.
    pub name: Box<str>,
    pub protocol: Protocol,
    pub port: u16,
    pub node_port: Option<NonZeroU16>,
}

impl Service {
    pub fn cluster_ip(&self, family: Family) -> Option<IpAddr> {
        self.cluster_ips.iter().copied().find(|ip| Family::of(*ip) == family)
    }
}
