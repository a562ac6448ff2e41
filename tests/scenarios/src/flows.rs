//! The table of packet flows: who calls what, and what must become of it.
//!
//! It says nothing of how rules are made, so every proxy mode is held to it. A flow names a position, a
//! protocol and a destination; what is expected may depend on whether the agent takes the client for somebody
//! inside, which [`Variant`] knows.

mod affinity;
mod cluster_ip;
mod endpoints;
mod external;
mod firewall;
pub mod judge;
mod node_port;
mod odd;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use model::{Family, Protocol};
use sandbox::address;

use crate::directory::{TUNNEL, address_of};
use crate::variant::Variant;
use crate::world::{Range, SECOND_BALANCER, World, address_in, node_port};

/// Where the client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// A pod of this node that is no endpoint.
    Guest,
    /// The pod `b`, an endpoint of many services: it may reach itself.
    EndpointB,
    /// The node itself, with its primary address.
    Node,
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
            Position::Far => address_of("far", family),
            Position::Outside => pick(address::CLIENT_V4, address::CLIENT_V6),
            Position::OutsideSecond => pick(address::CLIENT_SECOND_V4, address::CLIENT_SECOND_V6),
            Position::OutsideAsBalancer => address_in(Range::Balancer, SECOND_BALANCER, family),
        }
    }

    /// The interface through which its packets reach the node; `None` for the node's own.
    pub fn interface(self) -> Option<String> {
        match self {
            Position::Guest => Some(format!("{}guest", address::POD_LINK_PREFIX)),
            Position::EndpointB => Some(format!("{}b", address::POD_LINK_PREFIX)),
            Position::Node => None,
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
            Position::Far => "pod of another node",
            Position::Outside => "client",
            Position::OutsideSecond => "second client",
            Position::OutsideAsBalancer => "client with a balancer's address",
        })
    }
}

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

/// Whose address the endpoint sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Kept,
    Rewritten,
    /// Kept for pods of this node, rewritten for others: the rule of cluster IPs.
    ByDetector,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// By each of these servers now and then, and by no other.
    Answered(&'static [&'static str], Source),
    /// TCP reset or "port unreachable", at once.
    Rejected,
    /// Silence.
    Dropped,
    /// Nothing the proxy has to do with: the packet goes its way with the destination it had.
    Untouched,
}

/// How often to ask, and what the answers have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// Until every expected server has answered.
    Cover,
    /// Every answer comes from the same server.
    Sticky,
    /// Many times: the servers share them evenly.
    Evenly,
    /// Once from each of many addresses: they do not all meet the same server.
    ManyClients,
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Flow {
    pub from: Position,
    pub protocol: Protocol,
    pub to: Target,
    /// For clients that count as inside the node, and for all others.
    pub inside: Expect,
    pub outside: Expect,
    pub asking: Asking,
    pub families: &'static [Family],
    /// Expected instead if node ports are served on all addresses.
    pub on_all_addresses: Option<Expect>,
    /// The rule behind the expectation.
    pub why: &'static str,
}

impl Flow {
    /// Everybody gets the same answer.
    fn new(from: Position, protocol: Protocol, to: Target, expect: Expect, why: &'static str) -> Flow {
        Flow {
            from,
            protocol,
            to,
            inside: expect.clone(),
            outside: expect,
            asking: Asking::Cover,
            families: &Family::BOTH,
            on_all_addresses: None,
            why,
        }
    }

    /// Who is inside gets another answer than who is not.
    fn split(self, inside: Expect, outside: Expect) -> Flow {
        Flow { inside, outside, ..self }
    }

    fn asking(self, asking: Asking) -> Flow {
        Flow { asking, ..self }
    }

    fn only(self, families: &'static [Family]) -> Flow {
        Flow { families, ..self }
    }

    pub fn name(&self, family: Family) -> String {
        let asking = match self.asking {
            Asking::Cover => "",
            Asking::Sticky => ", again and again",
            Asking::Evenly => ", evenly",
            Asking::ManyClients => ", many clients",
        };
        format!("{} to {}, {family} {}{asking}", self.from, self.to, self.protocol)
    }

    pub fn expected(&self, variant: Variant) -> &Expect {
        match &self.on_all_addresses {
            Some(expect) if variant == Variant::AllNodePortAddresses => expect,
            _ if variant.is_inside(self.from) => &self.inside,
            _ => &self.outside,
        }
    }

    /// Whether the server `by` sees an address of the node instead of the client's.
    pub fn is_masqueraded(&self, variant: Variant, source: Source, by: &str) -> bool {
        let endpoint = by.split('/').next().unwrap_or(by);
        match source {
            // An endpoint in this node's host network is not behind postrouting.
            _ if endpoint == "node" => false,
            // Its answer to itself would never come back to the node to be translated.
            _ if self.from == Position::EndpointB && endpoint == "b" => true,
            Source::Kept => false,
            Source::Rewritten => true,
            Source::ByDetector => variant.masquerades_cluster_ip(self.from),
        }
    }

    /// Whether the variant changes what this flow must do, compared with the base of the table.
    pub fn differs_in(&self, variant: Variant) -> bool {
        let base = Variant::ClusterCidr;
        if self.expected(variant) != self.expected(base) {
            return true;
        }
        let Expect::Answered(servers, source) = self.expected(variant) else { return false };
        let seen = |variant| servers.iter().map(move |by| self.is_masqueraded(variant, *source, by));
        !seen(variant).eq(seen(base))
    }
}

/// Every row.
pub fn all() -> Vec<Flow> {
    let tables = [
        cluster_ip::flows(),
        external::flows(),
        node_port::flows(),
        endpoints::flows(),
        firewall::flows(),
        affinity::flows(),
        odd::flows(),
    ];
    tables.concat()
}

/// Servers, for the tables.
mod servers {
    pub(super) const ALL: &[&str] = &["a", "b", "c"];
    pub(super) const LOCAL: &[&str] = &["a", "b"];
    pub(super) const A: &[&str] = &["a"];
    pub(super) const B: &[&str] = &["b"];
    pub(super) const C: &[&str] = &["c"];
    pub(super) const A_C: &[&str] = &["a", "c"];
    pub(super) const A_C_SECOND: &[&str] = &["a/9090", "c/9090"];
    pub(super) const NODE: &[&str] = &["node"];
    pub(super) const REMOTE: &[&str] = &["remote"];
}

/// What the table modules use.
mod prelude {
    pub(super) use super::Asking::*;
    pub(super) use super::Expect::*;
    pub(super) use super::Position::*;
    pub(super) use super::Source::*;
    pub(super) use super::servers::*;
    pub(super) use super::{Flow, Target, balancer, cluster, doors, external};
    pub(super) use crate::world::Range;
    pub(super) use model::Family;
    pub(super) use model::Protocol::{Sctp, Tcp, Udp};
}
