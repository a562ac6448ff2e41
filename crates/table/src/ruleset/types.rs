//! The types of keys and data, by the numbers that nft has for them, and their values as nft prints them.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Ipv4,
    Ipv6,
    Protocol,
    Port,
    Mark,
    Direction,
    /// One that no set of ours has.
    Other(u32),
}

/// The parts of a type: six bits each, the first part highest.
pub(super) fn of(number: u32) -> Vec<Type> {
    let mut parts: Vec<Type> =
        (0..5).map(|at| number >> (6 * at) & 0x3f).take_while(|part| *part != 0).map(part).collect();
    parts.reverse();
    parts
}

fn part(number: u32) -> Type {
    match number {
        7 => Type::Ipv4,
        8 => Type::Ipv6,
        12 => Type::Protocol,
        13 => Type::Port,
        19 => Type::Mark,
        27 => Type::Direction,
        other => Type::Other(other),
    }
}

impl Type {
    /// A set whose key is declared by expressions has numbers where it would else have marks.
    pub(super) fn name(self, is_declared: bool) -> String {
        match self {
            Type::Ipv4 => "ipv4_addr",
            Type::Ipv6 => "ipv6_addr",
            Type::Protocol => "inet_proto",
            Type::Port => "inet_service",
            Type::Mark if is_declared => "integer",
            Type::Mark => "mark",
            Type::Direction => "ct_dir",
            Type::Other(number) => return format!("type {number}"),
        }
        .to_owned()
    }

    /// How much it takes of a key: each part is padded to four bytes.
    pub(super) fn length(self) -> usize {
        if self == Type::Ipv6 { 16 } else { 4 }
    }

    fn value(self, bytes: &[u8]) -> Value {
        let number = || bytes.first_chunk::<4>().map_or(0, |chunk| u32::from_ne_bytes(*chunk));
        let hex = || bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
        match self {
            Type::Ipv4 => {
                bytes.first_chunk::<4>().map_or_else(hex, |ip| Ipv4Addr::from(*ip).to_string().into())
            }
            Type::Ipv6 => {
                bytes.first_chunk::<16>().map_or_else(hex, |ip| Ipv6Addr::from(*ip).to_string().into())
            }
            Type::Protocol => protocol(bytes.first().copied().unwrap_or_default()),
            Type::Port => bytes.first_chunk::<2>().map_or(0, |port| u16::from_be_bytes(*port)).into(),
            Type::Mark => number().into(),
            Type::Direction => if bytes.first() == Some(&0) { "original" } else { "reply" }.into(),
            Type::Other(_) => hex(),
        }
    }
}

/// By the names of /etc/protocols.
pub(super) fn protocol(number: u8) -> Value {
    match number {
        1 => "icmp".into(),
        6 => "tcp".into(),
        17 => "udp".into(),
        58 => "ipv6-icmp".into(),
        132 => "sctp".into(),
        other => other.into(),
    }
}

/// A key or data as a whole.
pub(super) fn value(types: &[Type], bytes: &[u8]) -> Value {
    let mut rest = bytes;
    let mut parts = Vec::with_capacity(types.len());
    for one in types {
        let (own, behind) = rest.split_at_checked(one.length()).unwrap_or((rest, &[]));
        parts.push(one.value(own));
        rest = behind;
    }
    match parts.len() {
        1 => parts.remove(0),
        _ => serde_json::json!({ "concat": parts }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_concatenation_is_read_part_by_part() {
        let types = of(7 << 18 | 12 << 12 | 13 << 6 | 19);
        assert_eq!(types, [Type::Ipv4, Type::Protocol, Type::Port, Type::Mark]);
        let key = [10, 96, 0, 10, 6, 0, 0, 0, 0, 80, 0, 0]
            .into_iter()
            .chain(3u32.to_ne_bytes())
            .collect::<Vec<u8>>();
        assert_eq!(value(&types, &key), json!({ "concat": ["10.96.0.10", "tcp", 80, 3] }));
        assert_eq!(value(&of(8), &[0; 16]), json!("::"));
        assert_eq!(value(&of(7), &[1]), json!("01"), "too short");
    }
}
