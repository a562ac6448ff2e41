//! A claim's place, in as few bytes as its family allows.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Claim;
use crate::{Address, Protocol};

/// An address of the ledger's family.
pub(super) trait Ip: Copy + Ord + Into<IpAddr> {
    const UNSPECIFIED: Self;
    fn narrow(ip: IpAddr) -> Option<Self>;
}

impl Ip for Ipv4Addr {
    const UNSPECIFIED: Self = Ipv4Addr::UNSPECIFIED;
    fn narrow(ip: IpAddr) -> Option<Self> {
        if let IpAddr::V4(ip) = ip { Some(ip) } else { None }
    }
}

impl Ip for Ipv6Addr {
    const UNSPECIFIED: Self = Ipv6Addr::UNSPECIFIED;
    fn narrow(ip: IpAddr) -> Option<Self> {
        if let IpAddr::V6(ip) = ip { Some(ip) } else { None }
    }
}

/// A [`Claim`] in the least space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot<A> {
    node_port: bool,
    ip: A,
    port: u16,
    protocol: Protocol,
}

impl<A: Ip> Spot<A> {
    pub(super) fn of(claim: Claim) -> Option<Spot<A>> {
        let (node_port, ip, port) = match claim.at {
            Address::Vip(ip, port) => (false, A::narrow(ip)?, port),
            Address::NodePort(port) => (true, A::UNSPECIFIED, port),
        };
        Some(Spot { node_port, ip, port, protocol: claim.protocol })
    }

    /// The first and the last that an address can have.
    pub(super) fn all_at(ip: IpAddr) -> Option<(Spot<A>, Spot<A>)> {
        let ip = A::narrow(ip)?;
        let first = Spot { node_port: false, ip, port: 0, protocol: Protocol::Tcp };
        Some((first, Spot { port: u16::MAX, protocol: Protocol::Sctp, ..first }))
    }

    pub(super) fn claim(self) -> Claim {
        let at = match self.node_port {
            true => Address::NodePort(self.port),
            false => Address::Vip(self.ip.into(), self.port),
        };
        Claim { at, protocol: self.protocol }
    }
}
