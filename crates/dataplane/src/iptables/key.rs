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
mod tests {
    use super::*;

    fn key(ip: &str, protocol: Protocol, port: u16) -> Key {
        Key::of(Address::Vip(ip.parse().unwrap(), port), protocol)
    }

    #[test]
    fn prefixes_say_what_their_keys_have_in_common() {
        let web = key("10.96.17.5", Protocol::Tcp, 0x1f90);
        let port = Key::of(Address::NodePort(30080), Protocol::Udp);
        let six = key("fd00:10:96::1a5", Protocol::Sctp, 443);
        let cases = [
            (web, 5, " -d 10.96.16.0/20", "10.96.16.0-20"),
            (web, 8, " -d 10.96.17.5/32", "10.96.17.5-32"),
            (web, 9, " -d 10.96.17.5/32 -p tcp", "10.96.17.5-tcp-0-0"),
            (web, 11, " -d 10.96.17.5/32 -p tcp -m tcp --dport 7936:8191", "10.96.17.5-tcp-7936-8"),
            (web, 13, " -d 10.96.17.5/32 -p tcp -m tcp --dport 8080", "10.96.17.5-tcp-8080-16"),
            (port, 2, " -p udp -m udp --dport 28672:32767", "NP-udp-28672-4"),
            (port, 5, " -p udp -m udp --dport 30080", "NP-udp-30080-16"),
            (six, 31, " -d fd00:10:96::1a0/124", "fd00:10:96::1a0-124"),
            (Key::whole("10.96.0.1".parse().unwrap()), 13, " -d 10.96.0.1/32", "10.96.0.1-32"),
        ];
        for (key, nibbles, rule, name) in cases {
            let mut written = String::new();
            key.prefix(nibbles).write_match(&mut written);
            assert_eq!((written.as_str(), key.prefix(nibbles).to_string().as_str()), (rule, name));
        }
    }

    #[test]
    fn keys_are_sorted_by_their_nibbles() {
        let mut keys = vec![
            Key::whole("10.0.0.1".parse().unwrap()),
            key("10.0.0.1", Protocol::Sctp, 9),
            key("10.0.0.1", Protocol::Tcp, 443),
            key("10.0.0.1", Protocol::Tcp, 80),
            key("9.255.0.1", Protocol::Udp, 80),
        ];
        keys.sort();
        let nibbles = |key: &Key| (0..key.len()).map(|index| key.nibble(index)).collect::<Vec<_>>();
        assert!(keys.windows(2).all(|pair| nibbles(&pair[0]) < nibbles(&pair[1])), "{keys:?}");
        assert_eq!(keys[4], Key::whole("10.0.0.1".parse().unwrap()));
        assert_eq!(keys[1].common(&keys[2]), 10);
    }
}
