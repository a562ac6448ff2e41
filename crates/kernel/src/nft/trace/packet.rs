//! Where a packet comes from and goes to, by its first bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses and ports of a packet. Ports are 0 where the protocol has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// `IPPROTO_*`.
    pub protocol: u8,
    pub src: IpAddr,
    pub sport: u16,
    pub dst: IpAddr,
    pub dport: u16,
}

impl Packet {
    /// From the network header, and what there is of the transport header.
    pub(super) fn read(network: &[u8], transport: Option<&[u8]>) -> Option<Packet> {
        let (protocol, src, dst): (u8, IpAddr, IpAddr) = match network.first()? >> 4 {
            4 => {
                let ip = |at: usize| Some(Ipv4Addr::from(*network.get(at..)?.first_chunk::<4>()?).into());
                (*network.get(9)?, ip(12)?, ip(16)?)
            }
            6 => {
                let ip = |at: usize| Some(Ipv6Addr::from(*network.get(at..)?.first_chunk::<16>()?).into());
                (*network.get(6)?, ip(8)?, ip(24)?)
            }
            _ => return None,
        };
        let has_ports = super::table::PROTOCOLS.contains(&protocol);
        let port = |at: usize| -> u16 {
            let bytes = transport.filter(|_| has_ports).and_then(|bytes| bytes.get(at..)?.first_chunk::<2>());
            bytes.map_or(0, |bytes| u16::from_be_bytes(*bytes))
        };
        Some(Packet { protocol, src, sport: port(0), dst, dport: port(2) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: [u8; 4] = [0x12, 0x34, 0, 80];

    fn v4() -> [u8; 20] {
        let mut header = [0; 20];
        (header[0], header[9]) = (0x45, 6);
        header[12..16].copy_from_slice(&[10, 1, 0, 1]);
        header[16..20].copy_from_slice(&[10, 96, 0, 1]);
        header
    }

    #[test]
    fn headers_of_both_families_are_read() {
        let packet = Packet::read(&v4(), Some(&PORTS)).unwrap();
        let ends = (packet.src.to_string(), packet.sport, packet.dst.to_string(), packet.dport);
        assert_eq!((packet.protocol, ends), (6, ("10.1.0.1".into(), 0x1234, "10.96.0.1".into(), 80)));
        let mut header = [0; 40];
        (header[0], header[6], header[23], header[39]) = (0x60, 17, 1, 2);
        let packet = Packet::read(&header, Some(&PORTS)).unwrap();
        assert_eq!((packet.src.to_string(), packet.dst.to_string()), ("::1".into(), "::2".into()));
    }

    #[test]
    fn what_is_cut_off_is_no_packet_or_has_no_ports() {
        for length in 0..20 {
            assert_eq!(Packet::read(&v4()[..length], None), None, "{length}");
        }
        assert_eq!(Packet::read(&v4(), Some(&PORTS[..3])).map(|packet| packet.dport), Some(0));
        let mut ping = v4();
        ping[9] = 1;
        assert_eq!(Packet::read(&ping, Some(&PORTS)).map(|packet| packet.sport), Some(0));
    }
}
