//! What goes in at one end of a simulator and what comes out: packets, the host they meet, journeys.

use std::fmt;
use std::net::IpAddr;

pub use kernel::IpProtocol as Protocol;

/// How a packet comes to the host's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It arrives on this interface.
    Interface(String),
    /// The host itself sends it.
    Host,
}

/// A packet of a client to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub protocol: Protocol,
    pub source: IpAddr,
    pub source_port: u16,
    pub destination: IpAddr,
    pub destination_port: u16,
    pub mark: u32,
    pub origin: Origin,
}

/// The machine the rules are on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    pub addresses: Vec<IpAddr>,
    /// The source the host uses towards a network: network, prefix length, own address there. The first that
    /// fits counts; towards anything else it is the first own address of the family that is not loopback.
    pub routes: Vec<(IpAddr, u8, IpAddr)>,
}

impl Host {
    pub fn new(addresses: impl IntoIterator<Item = IpAddr>) -> Host {
        Host { addresses: addresses.into_iter().collect(), routes: Vec::new() }
    }

    pub fn is_local(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.addresses.contains(&address)
    }

    /// What masquerading puts in as source.
    pub fn source_towards(&self, destination: IpAddr) -> Option<IpAddr> {
        if self.is_local(destination) {
            return Some(destination);
        }
        let route = self.routes.iter().find(|(network, length, _)| covers(*network, *length, destination));
        let first = || {
            let mut own = self.addresses.iter();
            own.find(|own| own.is_ipv4() == destination.is_ipv4() && !own.is_loopback()).copied()
        };
        route.map(|(_, _, own)| *own).or_else(first)
    }
}

fn covers(network: IpAddr, length: u8, address: IpAddr) -> bool {
    let (network, address, width) = match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            (network.to_bits().into(), address.to_bits().into(), 32)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => (network.to_bits(), address.to_bits(), 128),
        _ => return false,
    };
    let differing: u128 = network ^ address;
    differing.checked_shr(width - u32::from(length).min(width)).unwrap_or(0) == 0
}

/// The places where base chains hang, `NF_INET_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookPoint {
    Prerouting,
    Input,
    Forward,
    Output,
    Postrouting,
}

impl HookPoint {
    pub(crate) fn number(self) -> u32 {
        match self {
            HookPoint::Prerouting => 0,
            HookPoint::Input => 1,
            HookPoint::Forward => 2,
            HookPoint::Output => 3,
            HookPoint::Postrouting => 4,
        }
    }
}

impl fmt::Display for HookPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HookPoint::Prerouting => "prerouting",
            HookPoint::Input => "input",
            HookPoint::Forward => "forward",
            HookPoint::Output => "output",
            HookPoint::Postrouting => "postrouting",
        })
    }
}

/// What the receiver of a packet sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub to: IpAddr,
    pub port: u16,
    pub source: IpAddr,
    /// Whether the host put its own address in the place of the source.
    pub masqueraded: bool,
    /// The mark the packet carries when it leaves the rules.
    pub mark: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    TcpReset,
    PortUnreachable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It leaves the host.
    Delivered(Delivery),
    /// It reaches a socket of the host.
    Local(Delivery),
    Rejected(Rejection),
    Dropped,
}

/// Where a packet's way through the rules ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub hook: HookPoint,
    /// The chain whose rule or policy ended it; `None` if it got through.
    pub chain: Option<String>,
}

/// A rule that did something with the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceStep {
    pub hook: HookPoint,
    pub chain: String,
    /// Counted from 0.
    pub rule: usize,
    pub text: String,
}

impl fmt::Display for TraceStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} / {} rule {}: {}", self.hook, self.chain, self.rule + 1, self.text)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journey {
    pub outcome: Outcome,
    pub ended: Place,
    pub trace: Vec<TraceStep>,
}

impl Journey {
    /// What the receiver sees, if the packet reached one.
    pub fn delivery(&self) -> Option<&Delivery> {
        match &self.outcome {
            Outcome::Delivered(delivery) | Outcome::Local(delivery) => Some(delivery),
            Outcome::Rejected(_) | Outcome::Dropped => None,
        }
    }
}
