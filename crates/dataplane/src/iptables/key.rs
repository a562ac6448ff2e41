//! What a rule asks of a packet's destination, as a string of nibbles: address, protocol, port. A prefix of it is
//! what a whole subtree has in common.

use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::{Address, Protocol};

const PORT_NIBBLES: usize = 4;

/// Sorted by its nibbles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    /// None for a port of the node.
    pub(super) ip: Option<IpAddr>,
    pub(super) ports: Ports,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Ports {
    One(Protocol, u16),
    /// What is said of one port comes before what is said of all.
    Any,
}

impl Key {
    pub(super) fn of(at: Address, protocol: Protocol) -> Key {
        match at {
            Address::Vip(ip, port) => Key { ip: Some(ip), ports: Ports::One(protocol, port) },
            Address::NodePort(port) => Key { ip: None, ports: Ports::One(protocol, port) },
        }
    }

    pub(super) fn whole(ip: IpAddr) -> Key {
        Key { ip: Some(ip), ports: Ports::Any }
    }

    fn address_nibbles(&self) -> usize {
        match self.ip {
            None => 0,
            Some(IpAddr::V4(_)) => 8,
            Some(IpAddr::V6(_)) => 32,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.address_nibbles() + 1 + PORT_NIBBLES
    }

    pub(super) fn nibble(&self, index: usize) -> u8 {
        let address = self.address_nibbles();
        let nibble_of =
            |bytes: &[u8]| bytes.get(index / 2).map_or(0, |byte| byte >> (4 * (1 - index % 2)) & 0xf);
        match (self.ip, self.ports) {
            (Some(IpAddr::V4(ip)), _) if index < address => nibble_of(&ip.octets()),
            (Some(IpAddr::V6(ip)), _) if index < address => nibble_of(&ip.octets()),
            (_, Ports::Any) => 0xf,
            (_, Ports::One(protocol, _)) if index == address => protocol as u8,
            (_, Ports::One(_, port)) => {
                let shift = (PORT_NIBBLES - 1).saturating_sub(index - address - 1) * 4;
                (port >> shift & 0xf) as u8
            }
        }
    }

    /// How many nibbles the two have in common at the start.
    pub(super) fn common(&self, other: &Key) -> usize {
        let length = self.len().min(other.len());
        (0..length).find(|index| self.nibble(*index) != other.nibble(*index)).unwrap_or(length)
    }

    /// All keys that begin as this one does.
    pub(super) fn prefix(&self, nibbles: usize) -> Prefix<'_> {
        Prefix { key: self, nibbles }
    }

    /// The words of a rule that matches this key alone.
    pub(super) fn write_match(&self, rule: &mut String) {
        self.prefix(self.len()).write_match(rule);
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Prefix<'a> {
    key: &'a Key,
    nibbles: usize,
}

impl Prefix<'_> {
    /// First address and its number of bits.
    fn network(&self) -> Option<(IpAddr, usize)> {
        let bits = self.nibbles.min(self.key.address_nibbles()) * 4;
        let masked = match self.key.ip? {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl((32 - bits) as u32).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & mask))
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl((128 - bits) as u32).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & mask))
            }
        };
        Some((masked, bits))
    }

    /// Protocol, first port, last port and number of bits.
    fn ports(&self) -> Option<(Protocol, u16, u16, usize)> {
        let nibbles = self.nibbles.checked_sub(self.key.address_nibbles() + 1)?;
        let Ports::One(protocol, port) = self.key.ports else { return None };
        let bits = nibbles * 4;
        let mask = u16::MAX.checked_shl((16 - bits) as u32).unwrap_or(0);
        Some((protocol, port & mask, port | !mask, bits))
    }

    pub(super) fn write_match(&self, rule: &mut String) {
        // Writing to a String cannot fail.
        if let Some((ip, bits)) = self.network() {
            let _ = write!(rule, " -d {ip}/{bits}");
        }
        let Some((protocol, first, last, bits)) = self.ports() else { return };
        let _ = write!(rule, " -p {protocol}");
        let _ = match bits {
            0 => Ok(()),
            16 => write!(rule, " -m {protocol} --dport {first}"),
            _ => write!(rule, " -m {protocol} --dport {first}:{last}"),
        };
    }
}

/// As it stands in the name of a chain: `10.96.16.0-20`, `NP-tcp-28672-4`.
impl fmt::Display for Prefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.network(), self.ports()) {
            (Some((ip, bits)), None) => write!(f, "{ip}-{bits}"),
            (Some((ip, _)), Some((protocol, first, _, bits))) => write!(f, "{ip}-{protocol}-{first}-{bits}"),
            (None, Some((protocol, first, _, bits))) => write!(f, "NP-{protocol}-{first}-{bits}"),
            (None, None) => f.write_str("NP"),
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/iptables_key.rs"]
mod tests;
