//! A recorded flow and its two tuples, to and from attributes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::sys;
use crate::IpFamily;
use crate::netlink::{Attribute, Writer, attributes};

/// Addresses and ports of packets in one direction. Ports are 0 where the protocol has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub sport: u16,
    pub dport: u16,
    /// Set only if the two directions of the flow are in different zones.
    pub zone: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// `IPPROTO_*`.
    pub protocol: u8,
    /// As the first packet came, before any rewriting.
    pub original: Tuple,
    /// As answers come: its `src` and `sport` are where the packets really went.
    pub reply: Tuple,
    /// `TCP_CONNTRACK_*`.
    pub tcp_state: Option<u8>,
    /// `IPS_*`, see [`status`].
    pub status: u32,
    pub zone: u16,
    pub mark: u32,
    /// The kernel's name for this entry.
    pub id: u32,
}

/// Bits of [`Flow::status`].
pub mod status {
    pub const SEEN_REPLY: u32 = 1 << 1;
    pub const ASSURED: u32 = 1 << 2;
    pub const CONFIRMED: u32 = 1 << 3;
    pub const SRC_NAT: u32 = 1 << 4;
    pub const DST_NAT: u32 = 1 << 5;
}

impl Tuple {
    pub fn new(src: (IpAddr, u16), dst: (IpAddr, u16)) -> Tuple {
        Tuple { src: src.0, sport: src.1, dst: dst.0, dport: dst.1, zone: None }
    }

    /// What answers look like if nothing is rewritten.
    pub fn reversed(&self) -> Tuple {
        Tuple { src: self.dst, sport: self.dport, dst: self.src, dport: self.sport, zone: self.zone }
    }

    /// A tuple together with the protocol that stands inside it on the wire.
    fn read(attribute: &Attribute<'_>) -> Option<(Tuple, u8)> {
        let (mut src, mut dst, mut protocol, mut zone) = (None, None, None, None);
        let (mut sport, mut dport) = (0, 0);
        for part in attribute.nested() {
            match part.kind {
                sys::TUPLE_IP => {
                    for field in part.nested() {
                        match field.kind {
                            sys::IP_V4_SRC | sys::IP_V6_SRC => src = ip(field.value),
                            sys::IP_V4_DST | sys::IP_V6_DST => dst = ip(field.value),
                            _ => {}
                        }
                    }
                }
                sys::TUPLE_PROTO => {
                    for field in part.nested() {
                        match field.kind {
                            sys::PROTO_NUM => protocol = field.u8(),
                            sys::PROTO_SRC_PORT => sport = field.be16()?,
                            sys::PROTO_DST_PORT => dport = field.be16()?,
                            _ => {}
                        }
                    }
                }
                sys::TUPLE_ZONE => zone = part.be16(),
                _ => {}
            }
        }
        Some((Tuple { src: src?, dst: dst?, sport, dport, zone }, protocol?))
    }

    pub(super) fn write(&self, kind: u16, protocol: u8, message: &mut Writer) {
        let tuple = message.nest(kind);
        let ips = message.nest(sys::TUPLE_IP);
        for (v4, v6, address) in
            [(sys::IP_V4_SRC, sys::IP_V6_SRC, self.src), (sys::IP_V4_DST, sys::IP_V6_DST, self.dst)]
        {
            match address {
                IpAddr::V4(ip) => message.attribute(v4, &ip.octets()),
                IpAddr::V6(ip) => message.attribute(v6, &ip.octets()),
            }
        }
        message.end_nest(ips);
        let ports = message.nest(sys::TUPLE_PROTO);
        message.u8(sys::PROTO_NUM, protocol);
        message.be16(sys::PROTO_SRC_PORT, self.sport);
        message.be16(sys::PROTO_DST_PORT, self.dport);
        message.end_nest(ports);
        if let Some(zone) = self.zone {
            message.be16(sys::TUPLE_ZONE, zone);
        }
        message.end_nest(tuple);
    }
}

impl Flow {
    /// A flow to be inserted, answered from where it was sent to unless `reply` says otherwise.
    pub fn new(protocol: u8, original: Tuple, reply: Tuple) -> Flow {
        Flow { protocol, original, reply, tcp_state: None, status: 0, zone: 0, mark: 0, id: 0 }
    }

    pub fn family(&self) -> IpFamily {
        IpFamily::of(self.original.src)
    }

    /// Whether a packet came back.
    pub fn is_answered(&self) -> bool {
        self.status & status::SEEN_REPLY != 0
    }

    /// Whether it is a TCP connection that is still being set up.
    pub fn is_in_handshake(&self) -> bool {
        matches!(self.tcp_state, Some(sys::TCP_SYN_SENT | sys::TCP_SYN_RECV))
    }

    /// From a message's payload; `None` if it is no flow as we know them.
    pub(crate) fn read(payload: &[u8]) -> Option<Flow> {
        let (mut original, mut reply) = (None, None);
        let (mut tcp_state, mut status, mut zone, mut mark, mut id) = (None, 0, 0, 0, 0);
        for attribute in attributes(payload.get(4..)?) {
            match attribute.kind {
                sys::TUPLE_ORIG => original = Tuple::read(&attribute),
                sys::TUPLE_REPLY => reply = Tuple::read(&attribute),
                sys::STATUS => status = attribute.be32()?,
                sys::PROTOINFO => tcp_state = read_tcp_state(&attribute),
                sys::ZONE => zone = attribute.be16()?,
                sys::MARK => mark = attribute.be32()?,
                sys::ID => id = attribute.be32()?,
                _ => {}
            }
        }
        let (original, protocol) = original?;
        Some(Flow { protocol, original, reply: reply?.0, tcp_state, status, zone, mark, id })
    }
}

fn read_tcp_state(protoinfo: &Attribute<'_>) -> Option<u8> {
    let tcp = protoinfo.nested().find(|a| a.kind == sys::PROTOINFO_TCP)?;
    tcp.nested().find(|a| a.kind == sys::PROTOINFO_TCP_STATE)?.u8()
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(*bytes.first_chunk::<4>()?).into()),
        16 => Some(Ipv6Addr::from(*bytes.first_chunk::<16>()?).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(flow: &Flow) -> Vec<u8> {
        let mut writer = Writer::default();
        let start = writer.begin(sys::CT_NEW, 0, 0, &sys::header(None));
        flow.original.write(sys::TUPLE_ORIG, flow.protocol, &mut writer);
        flow.reply.write(sys::TUPLE_REPLY, flow.protocol, &mut writer);
        writer.be32(sys::STATUS, flow.status);
        writer.be16(sys::ZONE, flow.zone);
        writer.end(start);
        writer.bytes().get(16..).unwrap().to_vec()
    }

    fn flow() -> Flow {
        let original = Tuple::new(("fd00::1".parse().unwrap(), 1), ("fd00::2".parse().unwrap(), 2));
        let reply = Tuple { zone: Some(5), ..original.reversed() };
        Flow { status: status::ASSURED, zone: 3, ..Flow::new(17, original, reply) }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Flow::read(&message(&flow())), Some(flow()));
    }

    #[test]
    fn a_connection_is_in_its_handshake_until_it_is_established() {
        let in_state = |tcp_state| Flow { tcp_state, ..flow() }.is_in_handshake();
        assert_eq!([None, Some(1), Some(2), Some(3)].map(in_state), [false, true, true, false]);
    }

    #[test]
    fn a_truncated_message_is_no_flow_or_one_without_its_end() {
        let whole = message(&flow());
        for length in 0..whole.len() {
            let read = Flow::read(&whole[..length]);
            assert!(read.is_none_or(|f| f.original == flow().original), "{length}");
        }
    }
}
