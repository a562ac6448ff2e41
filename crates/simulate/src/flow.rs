//! Connection tracking, as far as rules and NAT see it.

use std::collections::HashMap;
use std::net::IpAddr;

use super::packet::{Packet, Protocol};

/// Bits of `ct status`.
const SEEN_REPLY: u32 = 1 << 1;
const CONFIRMED: u32 = 1 << 3;
const SOURCE_NAT: u32 = 1 << 4;
const DESTINATION_NAT: u32 = 1 << 5;
const SOURCE_NAT_DONE: u32 = 1 << 7;
const DESTINATION_NAT_DONE: u32 = 1 << 8;
/// Bits of `ct state`.
const ESTABLISHED: u32 = 1 << 1;
const NEW: u32 = 1 << 3;

/// Where a packet came from and went to before any NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tuple {
    protocol: Protocol,
    source: (IpAddr, u16),
    pub(crate) destination: (IpAddr, u16),
}

impl Tuple {
    pub(crate) fn of(packet: &Packet) -> Tuple {
        Tuple {
            protocol: packet.protocol,
            source: (packet.source, packet.source_port),
            destination: (packet.destination, packet.destination_port),
        }
    }
}

/// One tracked connection. NAT is decided once for each direction, by the first packet; a connection that
/// was let through undecided stays so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) original: Tuple,
    /// Where its packets go, if that was decided; the original destination if no rule changed it.
    pub(crate) destination: Option<(IpAddr, u16)>,
    /// What its packets carry as source, if that was decided.
    pub(crate) source: Option<IpAddr>,
    pub(crate) confirmed: bool,
    replied: bool,
}

impl Flow {
    fn new(original: Tuple) -> Flow {
        Flow { original, destination: None, source: None, confirmed: false, replied: false }
    }

    pub(crate) fn state(&self) -> u32 {
        if self.replied { ESTABLISHED } else { NEW }
    }

    pub(crate) fn status(&self) -> u32 {
        let bits = [
            (self.replied, SEEN_REPLY),
            (self.confirmed, CONFIRMED),
            (self.is_masqueraded(), SOURCE_NAT),
            (self.is_redirected(), DESTINATION_NAT),
            (self.source.is_some(), SOURCE_NAT_DONE),
            (self.destination.is_some(), DESTINATION_NAT_DONE),
        ];
        bits.iter().filter(|(on, _)| *on).map(|(_, bit)| bit).sum()
    }

    pub(crate) fn is_replied(&self) -> bool {
        self.replied
    }

    pub(crate) fn is_redirected(&self) -> bool {
        self.destination.is_some_and(|to| to != self.original.destination)
    }

    pub(crate) fn is_masqueraded(&self) -> bool {
        self.source.is_some_and(|source| source != self.original.source.0)
    }

    pub(crate) fn reply_destination(&self) -> (IpAddr, u16) {
        (self.source.unwrap_or(self.original.source.0), self.original.source.1)
    }
}

/// The connections a host knows. Kept between walks, a further packet of a connection keeps its endpoint.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    known: HashMap<Tuple, Flow>,
}

impl Flows {
    pub fn new() -> Flows {
        Flows::default()
    }

    pub fn len(&self) -> usize {
        self.known.len()
    }

    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Where the connection of this packet goes, if it is known.
    pub fn endpoint(&self, packet: &Packet) -> Option<(IpAddr, u16)> {
        let flow = self.known.get(&Tuple::of(packet))?;
        Some(flow.destination.unwrap_or(flow.original.destination))
    }

    /// The server answered: from now on the connection's packets are not "new".
    pub fn replied(&mut self, packet: &Packet) {
        if let Some(flow) = self.known.get_mut(&Tuple::of(packet)) {
            flow.replied = true;
        }
    }

    /// Forget the connection, as a conntrack clean-up would. `false` if it was not known.
    pub fn forget(&mut self, packet: &Packet) -> bool {
        self.known.remove(&Tuple::of(packet)).is_some()
    }

    pub(crate) fn track(&self, packet: &Packet) -> Flow {
        let tuple = Tuple::of(packet);
        self.known.get(&tuple).copied().unwrap_or(Flow::new(tuple))
    }

    /// A connection is known once its first packet got through.
    pub(crate) fn confirm(&mut self, flow: &mut Flow) {
        flow.confirmed = true;
        self.known.insert(flow.original, *flow);
    }
}
