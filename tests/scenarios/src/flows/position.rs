//! Where clients are.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::Family;
use sandbox::address;

use crate::directory::{TUNNEL, address_of};
use crate::world::{Range, SECOND_BALANCER, address_in};

/// Where the client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// A pod of this node that is no endpoint, except to itself.
    Guest,
    /// The pod `b`, an endpoint of many services: it may reach itself.
    EndpointB,
    /// The node itself, with its primary address.
    Node,
    /// The node itself, with its address toward the client: masquerade toward the other node shows.
    NodeOuter,
    /// A pod of another node whose traffic to services comes through this one.
    Far,
    /// Outside the cluster.
    Outside,
    /// The same with another address.
    OutsideSecond,
    /// The same with an address of a load balancer.
    OutsideAsBalancer,
}

impl Position {
    pub fn address(self, family: Family) -> IpAddr {
        let pick = |v4: Ipv4Addr, v6: Ipv6Addr| match family {
            Family::V4 => IpAddr::V4(v4),
            Family::V6 => IpAddr::V6(v6),
        };
        match self {
            Position::Guest => address_of("guest", family),
            Position::EndpointB => address_of("b", family),
            Position::Node => address_of("node", family),
            Position::NodeOuter => pick(address::NODE_OUTER_V4, address::NODE_OUTER_V6),
            Position::Far => address_of("far", family),
            Position::Outside => pick(address::CLIENT_V4, address::CLIENT_V6),
            Position::OutsideSecond => pick(address::CLIENT_SECOND_V4, address::CLIENT_SECOND_V6),
            Position::OutsideAsBalancer => address_in(Range::Balancer, SECOND_BALANCER, family),
        }
    }

    /// The name under which it is an endpoint, for clients that may reach themselves.
    pub fn endpoint(self) -> Option<&'static str> {
        match self {
            Position::Guest => Some("guest"),
            Position::EndpointB => Some("b"),
            Position::Far => Some("far"),
            _ => None,
        }
    }

    pub fn is_node(self) -> bool {
        matches!(self, Position::Node | Position::NodeOuter)
    }

    /// The interface through which its packets reach the node; `None` for the node's own.
    pub fn interface(self) -> Option<String> {
        match self {
            Position::Guest => Some(format!("{}guest", address::POD_LINK_PREFIX)),
            Position::EndpointB => Some(format!("{}b", address::POD_LINK_PREFIX)),
            Position::Node | Position::NodeOuter => None,
            Position::Far => Some(TUNNEL.to_owned()),
            Position::Outside | Position::OutsideSecond | Position::OutsideAsBalancer => {
                Some(address::NODE_OUTSIDE.to_owned())
            }
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Position::Guest => "pod",
            Position::EndpointB => "pod b",
            Position::Node => "node",
            Position::NodeOuter => "node with its other address",
            Position::Far => "pod of another node",
            Position::Outside => "client",
            Position::OutsideSecond => "second client",
            Position::OutsideAsBalancer => "client with a balancer's address",
        })
    }
}
