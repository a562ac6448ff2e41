//! The socket filter that keeps connections of others away, in classic BPF. What it drops takes no room in the receive
//! buffer. It drops only what it is sure of: messages are laid out as ctnetlink writes them, or pass.

use std::net::IpAddr;

use super::super::monitor::filter::{DROP, Instruction, PASS, equals, load};
use super::super::sys::{NFNL_SUBSYS_CTNETLINK, NFPROTO_IPV4, NFPROTO_IPV6};
use super::Wanted;

const TYPE: u32 = 4;
const FAMILY: u32 = 16;
/// The header of `CTA_IP_V?_SRC`: behind those of the message, of `CTA_TUPLE_ORIG` and of `CTA_TUPLE_IP`.
const SOURCE: u32 = 16 + 4 + 4 + 4;

pub(super) fn program(wanted: &Wanted) -> Vec<Instruction> {
    let (family, length, [source, destination]) = match wanted.to {
        IpAddr::V4(_) => (NFPROTO_IPV4, 4, [1u16, 2]),
        IpAddr::V6(_) => (NFPROTO_IPV6, 16, [3, 4]),
    };
    let at_destination = SOURCE + 4 + length;
    // The headers of CTA_TUPLE_PROTO, CTA_PROTO_NUM with its value, CTA_PROTO_SRC_PORT with its value.
    let at_protocol = at_destination + 4 + length + 4;
    let at_port = at_protocol + 8 + 8;
    let mut program = vec![
        load(libc::BPF_H | libc::BPF_ABS, TYPE),
        // BPF loads in network byte order; headers are in the host's.
        equals((NFNL_SUBSYS_CTNETLINK << 8).to_be().into(), 1, 0),
        PASS,
        load(libc::BPF_B | libc::BPF_ABS, FAMILY),
        equals(family.into(), 1, 0),
        DROP,
    ];
    program.extend(attribute(at_destination, destination, &words(wanted.to)));
    if let Some(from) = wanted.from.filter(|from| from.is_ipv4() == wanted.to.is_ipv4()) {
        program.extend(attribute(SOURCE, source, &words(from)));
    }
    if let Some(protocol) = wanted.protocol {
        program.extend(part(at_protocol, 1, libc::BPF_B, protocol.into()));
    }
    if let Some(port) = wanted.port {
        program.extend(part(at_port, 3, libc::BPF_H, port.into()));
    }
    program.push(PASS);
    program
}

fn words(ip: IpAddr) -> Vec<u32> {
    match ip {
        IpAddr::V4(ip) => vec![ip.to_bits()],
        IpAddr::V6(ip) => (0..4).map(|word| (ip.to_bits() >> (96 - 32 * word)) as u32).collect(),
    }
}

/// Drop unless the attribute has this value; pass if another one is there.
fn attribute(at: u32, kind: u16, value: &[u32]) -> Vec<Instruction> {
    let values = value.iter().zip((0..).step_by(4)).flat_map(|(word, offset)| {
        [load(libc::BPF_W | libc::BPF_ABS, at + 4 + offset), equals(*word, 1, 0), DROP]
    });
    is_there(at, kind).into_iter().chain(values).collect()
}

fn part(at: u32, kind: u16, size: u32, value: u32) -> Vec<Instruction> {
    let mut check = is_there(at, kind).to_vec();
    check.extend([load(size | libc::BPF_ABS, at + 4), equals(value, 1, 0), DROP]);
    check
}

fn is_there(at: u32, kind: u16) -> [Instruction; 3] {
    [load(libc::BPF_H | libc::BPF_ABS, at + 2), equals(kind.to_be().into(), 1, 0), PASS]
}
