//! Addresses that endpoints should not have, since connections that are sent there get nowhere.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::ServiceKey;

/// Where the forwarder listens, an address of its own in each family. Link-local: no router passes it on. The other one
/// is from a random unique local prefix.
pub const FORWARDER: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 84, 85)),
    IpAddr::V6(Ipv6Addr::new(0xfdc7, 0x6b1e, 0x84f3, 0, 0, 0, 0, 0x55)),
];

/// Why connections to an endpoint get nowhere, although it is used. Rules redirect a connection once, and let pass what
/// the forwarder sends: none of them looks up the address of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeadEnd {
    /// It is the cluster IP of this service.
    ClusterIp(ServiceKey),
    Forwarder,
}

impl DeadEnd {
    /// `owner` finds the service that has an address as its cluster IP.
    pub fn of(ip: IpAddr, owner: impl FnOnce(IpAddr) -> Option<ServiceKey>) -> Option<DeadEnd> {
        match FORWARDER.contains(&ip) {
            true => Some(DeadEnd::Forwarder),
            false => owner(ip).map(DeadEnd::ClusterIp),
        }
    }

    /// In answers to programs.
    pub fn word(&self) -> &'static str {
        match self {
            DeadEnd::ClusterIp(_) => "clusterIP",
            DeadEnd::Forwarder => "forwarder",
        }
    }
}

/// What the address is, and what to do.
impl fmt::Display for DeadEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeadEnd::ClusterIp(service) => write!(f, "is the cluster IP of {service}")?,
            DeadEnd::Forwarder => f.write_str("is kube-proxy's own, for its forwarder")?,
        }
        f.write_str("; connections to it usually go nowhere: point the EndpointSlice at pods")
    }
}
