//! What clients call.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use model::Family;
use sandbox::address;

use crate::world::{Range, World, address_in, node_port};

/// What is called, by the name of the service and the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Vip(Range, &'static str, u16),
    /// The service's node port on the node's primary address.
    NodePort(&'static str),
    /// ... on the node's other address.
    OtherNodePort(&'static str),
    LoopbackNodePort(&'static str),
    /// Any port of the node's primary address.
    OnNode(u16),
    /// A cluster IP that no service has.
    Unallocated(u16),
}

pub const fn cluster(service: &'static str) -> Target {
    Target::Vip(Range::Cluster, service, 80)
}

pub const fn external(service: &'static str) -> Target {
    Target::Vip(Range::External, service, 80)
}

pub const fn balancer(service: &'static str) -> Target {
    Target::Vip(Range::Balancer, service, 80)
}

/// The three ways in from outside.
pub const fn doors(service: &'static str) -> [Target; 3] {
    [external(service), balancer(service), Target::NodePort(service)]
}

impl Target {
    pub fn at(self, world: &World, family: Family) -> SocketAddr {
        let pick = |v4: Ipv4Addr, v6: Ipv6Addr, port| match family {
            Family::V4 => SocketAddr::new(v4.into(), port),
            Family::V6 => SocketAddr::new(v6.into(), port),
        };
        let port_of = |service| node_port(world.number(service));
        match self {
            Target::Vip(range, service, port) => {
                SocketAddr::new(address_in(range, world.number(service), family), port)
            }
            Target::NodePort(service) => pick(address::NODE_V4, address::NODE_V6, port_of(service)),
            Target::OtherNodePort(service) => {
                pick(address::NODE_OUTER_V4, address::NODE_OUTER_V6, port_of(service))
            }
            Target::LoopbackNodePort(service) => {
                pick(Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST, port_of(service))
            }
            Target::OnNode(port) => pick(address::NODE_V4, address::NODE_V6, port),
            Target::Unallocated(port) => SocketAddr::new(address_in(Range::Cluster, 4000, family), port),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Vip(Range::Cluster, service, port) => write!(f, "{service} cluster IP:{port}"),
            Target::Vip(Range::External, service, port) => write!(f, "{service} external IP:{port}"),
            Target::Vip(Range::Balancer, service, port) => write!(f, "{service} balancer IP:{port}"),
            Target::NodePort(service) => write!(f, "{service} node port"),
            Target::OtherNodePort(service) => write!(f, "{service} node port, other address"),
            Target::LoopbackNodePort(service) => write!(f, "{service} node port, loopback"),
            Target::OnNode(port) => write!(f, "node:{port}"),
            Target::Unallocated(port) => write!(f, "unallocated cluster IP:{port}"),
        }
    }
}
