//! Rules in words, for those who watch a packet go.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::instruction::{Compare, Ct, Datum, Header, Meta, Verdict};

/// What a register holds, for the sentence about a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    what: &'static str,
    kind: Kind,
    mask: Option<Box<[u8]>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Address,
    Port,
    Protocol,
    Name,
    Bits(&'static [(u32, &'static str)]),
    Bytes,
}

const STATES: &[(u32, &str)] = &[(1, "invalid"), (2, "established"), (4, "related"), (8, "new")];
const STATUSES: &[(u32, &str)] =
    &[(2, "answered"), (8, "confirmed"), (16, "source-NATed"), (32, "redirected")];

impl Label {
    fn new(what: &'static str, kind: Kind) -> Label {
        Label { what, kind, mask: None }
    }

    pub(super) fn payload(header: Header, offset: usize, length: usize) -> Label {
        match (header, offset, length) {
            (Header::Network, 12, 4) | (Header::Network, 8, 16) => Label::new("source", Kind::Address),
            (Header::Network, 16, 4) | (Header::Network, 24, 16) => Label::new("destination", Kind::Address),
            (Header::Transport, 0, 2) => Label::new("source port", Kind::Port),
            (Header::Transport, 2, 2) => Label::new("destination port", Kind::Port),
            _ => Label::new("header field", Kind::Bytes),
        }
    }

    pub(super) fn meta(key: Meta) -> Label {
        match key {
            Meta::Mark => Label::new("mark", Kind::Bits(&[])),
            Meta::IifName => Label::new("interface", Kind::Name),
            Meta::OifName => Label::new("outgoing interface", Kind::Name),
            Meta::L4Proto => Label::new("protocol", Kind::Protocol),
        }
    }

    pub(super) fn ct(key: Ct) -> Label {
        match key {
            Ct::State => Label::new("connection", Kind::Bits(STATES)),
            Ct::Direction => Label::new("direction", Kind::Bytes),
            Ct::Status => Label::new("connection", Kind::Bits(STATUSES)),
            Ct::OriginalDestination(_) => Label::new("original destination", Kind::Address),
            Ct::ReplyDestination(_) => Label::new("destination of replies", Kind::Address),
            Ct::OriginalPort => Label::new("original port", Kind::Port),
            Ct::ReplyPort => Label::new("port of replies", Kind::Port),
        }
    }

    pub(super) fn masked(&self, mask: &[u8]) -> Label {
        Label { mask: Some(mask.into()), ..self.clone() }
    }

    /// The sentence about a comparison that held.
    pub(super) fn compared(&self, op: Compare, value: &[u8]) -> String {
        match (self.kind, &self.mask) {
            (Kind::Bits(names), mask) => self.bits(names, mask.as_deref(), op, value),
            (Kind::Address, Some(mask)) => {
                let ones: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
                let side = if op == Compare::Equal { "in" } else { "outside" };
                format!("{} {side} {}/{ones}", self.what, address(value))
            }
            (Kind::Name, _) if value.last() != Some(&0) && value.len() < 16 => {
                format!("{} {} {}*", self.what, relation(op), text(value))
            }
            (kind, _) => format!("{} {} {}", self.what, relation(op), plain(kind, value)),
        }
    }

    fn bits(&self, names: &[(u32, &str)], mask: Option<&[u8]>, op: Compare, value: &[u8]) -> String {
        let (value, mask) = (host_number(value), mask.map(host_number).unwrap_or(u32::MAX));
        if names.is_empty() {
            let masked = if mask == u32::MAX { String::new() } else { format!(" & {mask:#x}") };
            return format!("{}{masked} {} {value:#x}", self.what, relation(op));
        }
        let (on, off) = match op {
            Compare::NotEqual if value == 0 => (named(names, mask, " or "), String::new()),
            Compare::Equal => {
                (named(names, value, " and "), named(names, mask & !value & mask_of(names), " nor "))
            }
            _ => (format!("{} {value:#x}", relation(op)), String::new()),
        };
        match (mask == u32::MAX || off.is_empty(), on.is_empty()) {
            (true, _) => format!("{} {on}", self.what),
            (false, true) => format!("{} not {off}", self.what),
            (false, false) => format!("{} {on}, not {off}", self.what),
        }
    }
}

fn mask_of(names: &[(u32, &str)]) -> u32 {
    names.iter().map(|(bit, _)| bit).sum()
}

fn named(names: &[(u32, &str)], bits: u32, between: &str) -> String {
    let words: Vec<&str> = names.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
    words.join(between)
}

fn relation(op: Compare) -> &'static str {
    match op {
        Compare::Equal => "is",
        Compare::NotEqual => "is not",
        Compare::Less => "is below",
        Compare::LessOrEqual => "is at most",
        Compare::Greater => "is above",
        Compare::GreaterOrEqual => "is at least",
    }
}

fn plain(kind: Kind, value: &[u8]) -> String {
    match kind {
        Kind::Address => address(value),
        Kind::Port => network_number(value).to_string(),
        Kind::Protocol => protocol(value.first().copied().unwrap_or_default()),
        Kind::Name => text(value),
        Kind::Bits(_) | Kind::Bytes => hexadecimal(value),
    }
}

/// A key or data as nft's type number says: six bits a part, the last part lowest, each padded to four bytes.
pub(super) fn concatenation(mut kind: u32, bytes: &[u8]) -> String {
    let mut kinds = Vec::new();
    while kind != 0 {
        kinds.push(kind & 0x3f);
        kind >>= 6;
    }
    let mut rest = bytes;
    let mut parts = Vec::new();
    for kind in kinds.into_iter().rev() {
        let length = if kind == 8 { 16 } else { 4 }.min(rest.len());
        let (part, behind) = rest.split_at(length);
        parts.push(typed(kind, part));
        rest = behind;
    }
    if !rest.is_empty() {
        parts.push(hexadecimal(rest));
    }
    parts.join(" . ")
}

/// nft's numbers of types.
fn typed(kind: u32, part: &[u8]) -> String {
    match kind {
        7 | 8 => address(part),
        12 => protocol(part.first().copied().unwrap_or_default()),
        13 => network_number(part.get(..2).unwrap_or(part)).to_string(),
        4 | 19 => host_number(part).to_string(),
        41 => text(part),
        _ => hexadecimal(part),
    }
}

pub(super) fn datum(kind: u32, data: &Datum) -> String {
    match data {
        Datum::Value(value) => concatenation(kind, value),
        Datum::Verdict(verdict) => self::verdict(verdict),
        Datum::Counter(name) => format!("counter {name}"),
    }
}

pub(super) fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Accept => "accept".to_owned(),
        Verdict::Drop => "drop".to_owned(),
        Verdict::Continue => "continue".to_owned(),
        Verdict::Break => "next rule".to_owned(),
        Verdict::Return => "return".to_owned(),
        Verdict::Jump(chain) => format!("jump {chain}"),
        Verdict::Goto(chain) => format!("goto {chain}"),
    }
}

fn address(bytes: &[u8]) -> String {
    ip(bytes).map_or_else(|| hexadecimal(bytes), |ip| ip.to_string())
}

pub(super) fn ip(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::V4(Ipv4Addr::from(octets)));
    }
    <[u8; 16]>::try_from(bytes).ok().map(|octets| IpAddr::V6(Ipv6Addr::from(octets)))
}

fn protocol(number: u8) -> String {
    match number {
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        132 => "sctp".to_owned(),
        other => other.to_string(),
    }
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

fn network_number(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn host_number(bytes: &[u8]) -> u32 {
    <[u8; 4]>::try_from(bytes).map(u32::from_ne_bytes).unwrap_or_default()
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut out = String::from("0x");
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out
}
