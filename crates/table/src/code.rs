//! Rules in words: a small builder over the kernel's instructions, for one family.
//!
//! Fields are loaded into consecutive 4-byte words of the register file, the way the nft tool does it, so
//! that it can print every rule back.

use std::net::IpAddr;

use ipnet::IpNet;
use kernel::nft::{
    Base, CompareOp, CtDirection, CtKey, DynsetOp, Expression, MetaKey, Reg, Reject, VerdictCode,
};
use model::Family;

/// Something a rule can look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Source,
    /// The source's network of this prefix length.
    SourceNet(u8),
    Destination,
    Protocol,
    DestinationPort,
    /// The destination before any rewriting, from conntrack.
    OriginalDestination,
    OriginalPort,
    /// Which way of the connection the packet goes.
    Direction,
    /// A random number below this.
    Random(u32),
}

/// The destination key by address.
pub(crate) const VIP: [Field; 3] = [Field::Destination, Field::Protocol, Field::DestinationPort];
/// The destination key of node ports.
pub(crate) const NODE_PORT: [Field; 2] = [Field::Protocol, Field::DestinationPort];

const CT_STATE_NEW: u32 = 8;
const CT_STATUS_CONFIRMED: u32 = 8;
const CT_STATUS_DNAT: u32 = 32;

/// A rule under construction.
pub struct Code<'a> {
    family: Family,
    expressions: Vec<Expression<'a>>,
}

impl<'a> Code<'a> {
    pub fn new(family: Family) -> Code<'a> {
        Code { family, expressions: Vec::new() }
    }

    pub fn done(self) -> Vec<Expression<'a>> {
        self.expressions
    }

    /// Count what comes this far.
    pub fn count(self, counter: &'a str) -> Code<'a> {
        self.with(Expression::Count(counter))
    }

    pub fn within(self, fields: &[Field], set: &'a str) -> Code<'a> {
        self.load(fields, 0).with(Expression::Lookup { set, key: word(0), to: None, invert: false })
    }

    pub fn vmap(self, fields: &[Field], map: &'a str) -> Code<'a> {
        self.load(fields, 0).with(Expression::Lookup {
            set: map,
            key: word(0),
            to: Some(Reg(0)),
            invert: false,
        })
    }

    /// Redirect to the endpoint that `map` holds for these fields; falls through when there is none.
    pub fn dnat_by(self, fields: &[Field], map: &'a str) -> Code<'a> {
        let port = word(self.words(Field::Destination));
        self.load(fields, 0)
            .with(Expression::Lookup { set: map, key: word(0), to: Some(word(0)), invert: false })
            .with(Expression::Dnat { address: word(0), port: Some(port) })
    }

    /// Write or delete the element `key : data` of a map.
    pub fn dynset(
        self,
        map: &'a str,
        op: DynsetOp,
        key: &[Field],
        data: &[Field],
        timeout_ms: Option<u64>,
    ) -> Code<'a> {
        let data_at: usize = key.iter().map(|field| self.words(*field)).sum();
        self.load(key, 0).load(data, data_at).with(Expression::Dynset {
            set: map,
            op,
            key: word(0),
            data: Some(word(data_at)),
            timeout_ms,
        })
    }

    /// Count the packet in the counter that `map` holds for these fields; falls through when there is none.
    pub fn count_in(self, fields: &[Field], map: &'a str) -> Code<'a> {
        self.load(fields, 0).with(Expression::CountIn { map, key: word(0) })
    }

    pub fn source_within(self, net: &IpNet, inside: bool) -> Code<'a> {
        let op = if inside { CompareOp::Equal } else { CompareOp::NotEqual };
        let value = match net.network() {
            std::net::IpAddr::V4(ip) => ip.octets().to_vec(),
            std::net::IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        self.load(&[Field::SourceNet(net.prefix_len())], 0).with(Expression::Compare {
            op,
            reg: word(0),
            value,
        })
    }

    /// Match the incoming interface, by whole name or by prefix.
    pub fn interface(self, name: &str, whole: bool, inside: bool) -> Code<'a> {
        let op = if inside { CompareOp::Equal } else { CompareOp::NotEqual };
        let mut value = name.as_bytes().to_vec();
        if whole {
            value.resize(16, 0);
        }
        self.with(Expression::Meta { key: MetaKey::IifName, to: word(0) }).with(Expression::Compare {
            op,
            reg: word(0),
            value,
        })
    }

    /// Match packets that leave by any interface but this one.
    pub fn goes_out_other_than(self, name: &str) -> Code<'a> {
        let mut value = name.as_bytes().to_vec();
        value.resize(16, 0);
        self.with(Expression::Meta { key: MetaKey::OifName, to: word(0) }).with(Expression::Compare {
            op: CompareOp::NotEqual,
            reg: word(0),
            value,
        })
    }

    /// Match pings.
    pub fn echo_request(self) -> Code<'a> {
        let (protocol, kind) = match self.family {
            Family::V4 => (1, 8),
            Family::V6 => (58, 128),
        };
        self.protocol(protocol)
            .with(Expression::Payload { base: Base::Transport, offset: 0, length: 1, to: word(0) })
            .equals(vec![kind])
    }

    /// Match packets from this address.
    pub fn comes_from(self, ip: IpAddr) -> Code<'a> {
        self.source_within(&IpNet::from(ip), true)
    }

    /// Match what the kernel answers to a connection for which nobody listens: a reset that numbers no byte.
    pub fn refusal_of_tcp(self) -> Code<'a> {
        const FLAGS: u32 = 13;
        const NUMBER: u32 = 4;
        const RESET: u8 = 4;
        let field =
            |offset, length| Expression::Payload { base: Base::Transport, offset, length, to: word(0) };
        let masked = Expression::Bitwise { from: word(0), to: word(0), mask: vec![RESET], xor: vec![0] };
        self.protocol(6)
            .with(field(FLAGS, 1))
            .with(masked)
            .equals(vec![RESET])
            .with(field(NUMBER, 4))
            .equals(vec![0; 4])
    }

    pub fn protocol(self, number: u8) -> Code<'a> {
        self.load(&[Field::Protocol], 0).equals(vec![number])
    }

    /// True for every packet of the protocol; keeps the protocol in nft's listing, which else drops it.
    pub fn has_port(self, protocol: u8) -> Code<'a> {
        self.protocol(protocol).load(&[Field::DestinationPort], 0).with(Expression::Compare {
            op: CompareOp::NotEqual,
            reg: word(0),
            value: vec![0, 0],
        })
    }

    pub fn new_connection(self) -> Code<'a> {
        self.with(Expression::Ct { key: CtKey::State, direction: None, to: word(0) }).has_bits(CT_STATE_NEW)
    }

    pub fn redirected(self) -> Code<'a> {
        self.with(Expression::Ct { key: CtKey::Status, direction: None, to: word(0) })
            .has_bits(CT_STATUS_DNAT)
    }

    /// The first packet of a redirected connection: conntrack has not confirmed it yet.
    pub fn first_redirected(self) -> Code<'a> {
        self.with(Expression::Ct { key: CtKey::Status, direction: None, to: word(0) })
            .bitwise(CT_STATUS_CONFIRMED | CT_STATUS_DNAT, 0)
            .equals(CT_STATUS_DNAT.to_ne_bytes().to_vec())
    }

    pub fn has_mark(self, bit: u32) -> Code<'a> {
        self.with(Expression::Meta { key: MetaKey::Mark, to: word(0) }).has_bits(bit)
    }

    pub fn set_mark(self, bit: u32) -> Code<'a> {
        self.mark(!bit, bit)
    }

    pub fn flip_mark(self, bit: u32) -> Code<'a> {
        self.mark(u32::MAX, bit)
    }

    pub fn masquerade(self) -> Code<'a> {
        self.with(Expression::Masquerade { fully_random: true })
    }

    pub fn reject(self, how: Reject) -> Code<'a> {
        self.with(Expression::Reject(how))
    }

    pub fn then(self, verdict: VerdictCode<'a>) -> Code<'a> {
        self.with(Expression::Verdict(verdict))
    }

    fn mark(self, mask: u32, xor: u32) -> Code<'a> {
        self.with(Expression::Meta { key: MetaKey::Mark, to: word(0) })
            .bitwise(mask, xor)
            .with(Expression::SetMark { from: word(0) })
    }

    fn has_bits(self, bits: u32) -> Code<'a> {
        self.bitwise(bits, 0).with(Expression::Compare {
            op: CompareOp::NotEqual,
            reg: word(0),
            value: vec![0; 4],
        })
    }

    fn equals(self, value: Vec<u8>) -> Code<'a> {
        self.with(Expression::Compare { op: CompareOp::Equal, reg: word(0), value })
    }

    fn bitwise(self, mask: u32, xor: u32) -> Code<'a> {
        let (mask, xor) = (mask.to_ne_bytes().to_vec(), xor.to_ne_bytes().to_vec());
        self.with(Expression::Bitwise { from: word(0), to: word(0), mask, xor })
    }

    /// Load fields one behind the other, from the given word on.
    fn load(mut self, fields: &[Field], mut at: usize) -> Code<'a> {
        for field in fields {
            let to = word(at);
            at += self.words(*field);
            self = match field {
                Field::SourceNet(length) => self.load_source_net(*length, to),
                _ => {
                    let expression = self.load_one(*field, to);
                    self.with(expression)
                }
            };
        }
        self
    }

    fn load_one(&self, field: Field, to: Reg) -> Expression<'a> {
        let (length, source, destination) = match self.family {
            Family::V4 => (4, 12, 16),
            Family::V6 => (16, 8, 24),
        };
        let original = Some(CtDirection::Original);
        match field {
            Field::Source | Field::SourceNet(_) => {
                Expression::Payload { base: Base::Network, offset: source, length, to }
            }
            Field::Destination => {
                Expression::Payload { base: Base::Network, offset: destination, length, to }
            }
            Field::Protocol => Expression::Meta { key: MetaKey::L4Proto, to },
            Field::DestinationPort => Expression::Payload { base: Base::Transport, offset: 2, length: 2, to },
            Field::OriginalDestination => {
                let key = match self.family {
                    Family::V4 => CtKey::DestinationIp,
                    Family::V6 => CtKey::DestinationIp6,
                };
                Expression::Ct { key, direction: original, to }
            }
            Field::OriginalPort => Expression::Ct { key: CtKey::ProtoDestination, direction: original, to },
            Field::Direction => Expression::Ct { key: CtKey::Direction, direction: None, to },
            Field::Random(modulus) => Expression::NumgenRandom { modulus, to },
        }
    }

    fn load_source_net(self, length: u8, to: Reg) -> Code<'a> {
        let load = self.load_one(Field::Source, to);
        let bytes = 4 * self.words(Field::Source);
        let code = self.with(load);
        if usize::from(length) == bytes * 8 {
            return code;
        }
        let mask = prefix_mask(length, bytes);
        code.with(Expression::Bitwise { from: to, to, mask, xor: vec![0; bytes] })
    }

    fn words(&self, field: Field) -> usize {
        let is_address = matches!(
            field,
            Field::Source | Field::SourceNet(_) | Field::Destination | Field::OriginalDestination
        );
        if is_address && self.family == Family::V6 { 4 } else { 1 }
    }

    fn with(mut self, expression: Expression<'a>) -> Code<'a> {
        self.expressions.push(expression);
        self
    }
}

/// A word of the register file by the name nft uses for it: 1 to 4 where 16 bytes begin, 8 to 23 else.
fn word(index: usize) -> Reg {
    if index.is_multiple_of(4) { Reg(1 + index as u32 / 4) } else { Reg(8 + index as u32) }
}

fn prefix_mask(length: u8, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|index| {
            let bits = usize::from(length).saturating_sub(index * 8).min(8);
            if bits == 0 { 0 } else { 0xffu8 << (8 - bits) }
        })
        .collect()
}
