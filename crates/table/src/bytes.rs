//! Keys and data of elements: short byte strings, kept inline because there are hundreds of thousands.

use std::net::IpAddr;

use crate::meter::Direction;

/// The longest key: an IPv6 affinity member (two addresses, two ports, a protocol).
const CAPACITY: usize = 48;

/// Concatenated fields, each padded to four bytes as the kernel wants them.
#[derive(Clone, Copy)]
pub struct Fields {
    bytes: [u8; CAPACITY],
    length: u8,
}

impl Fields {
    #[expect(clippy::new_without_default, reason = "a key is built, not defaulted")]
    pub fn new() -> Fields {
        Fields { bytes: [0; CAPACITY], length: 0 }
    }

    pub fn ip(self, ip: IpAddr) -> Fields {
        match ip {
            IpAddr::V4(ip) => self.push(&ip.octets()),
            IpAddr::V6(ip) => self.push(&ip.octets()),
        }
    }

    pub fn protocol(self, number: u8) -> Fields {
        self.push(&[number, 0, 0, 0])
    }

    pub fn port(self, port: u16) -> Fields {
        let [high, low] = port.to_be_bytes();
        self.push(&[high, low, 0, 0])
    }

    /// A slot number: what `numgen` leaves in its register, in host byte order.
    pub fn slot(self, slot: u32) -> Fields {
        self.push(&slot.to_ne_bytes())
    }

    /// Which way a packet of a connection goes, as conntrack numbers it.
    pub fn direction(self, direction: Direction) -> Fields {
        self.push(&[direction as u8, 0, 0, 0])
    }

    pub fn append(self, other: &Fields) -> Fields {
        self.push(other.as_slice())
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length as usize]
    }

    fn push(mut self, part: &[u8]) -> Fields {
        let start = self.length as usize;
        self.bytes[start..start + part.len()].copy_from_slice(part);
        self.length += part.len() as u8;
        self
    }
}

// Only what is used counts: most keys are far shorter than the room for them, and sorting is the hot path.
impl PartialEq for Fields {
    fn eq(&self, other: &Fields) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Fields {}

impl PartialOrd for Fields {
    fn partial_cmp(&self, other: &Fields) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Fields {
    fn cmp(&self, other: &Fields) -> std::cmp::Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

impl std::hash::Hash for Fields {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl std::fmt::Debug for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:02x?}", self.as_slice())
    }
}
