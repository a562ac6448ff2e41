//! The phrases that rules of the flat layout are made of, for either address family.

use kernel::nft::*;

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const SCTP: u8 = 132;

/// Loads a key part by part: each takes the next free words of four bytes.
pub(crate) struct Phrases {
    pub(crate) family: TableFamily,
}

pub(crate) type Phrase = Vec<Expression<'static>>;

const FIRST: u32 = 8;

#[derive(Clone, Copy)]
pub(crate) enum Part {
    Source,
    /// The source address cut to its first bits.
    SourceNetwork(u8),
    Destination,
    Protocol,
    Port,
    /// The destination before redirection.
    OriginalDestination,
    OriginalPort,
    Slot(u32),
}
use Part::*;

pub(crate) const VIP: [Part; 3] = [Destination, Protocol, Port];
pub(crate) const NODE_PORT: [Part; 2] = [Protocol, Port];

impl Phrases {
    pub(crate) fn address_length(&self) -> u32 {
        if self.family == TableFamily::Ip { 4 } else { 16 }
    }

    fn width(&self, part: Part) -> u32 {
        match part {
            Source | SourceNetwork(_) | Destination | OriginalDestination => self.address_length() / 4,
            Protocol | Port | OriginalPort | Slot(_) => 1,
        }
    }

    fn address(&self, offset4: u32, offset6: u32, to: Reg) -> Expression<'static> {
        let offset = if self.family == TableFamily::Ip { offset4 } else { offset6 };
        Expression::Payload { base: Base::Network, offset, length: self.address_length(), to }
    }

    fn mask(&self, bits: u8) -> Vec<u8> {
        let ones = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or_default().to_be_bytes();
        ones[..self.address_length() as usize].to_vec()
    }

    fn load(&self, part: Part, to: Reg) -> Phrase {
        let one = match part {
            Source => self.address(12, 8, to),
            SourceNetwork(bits) => {
                let xor = vec![0; self.address_length() as usize];
                let cut = Expression::Bitwise { from: to, to, mask: self.mask(bits), xor };
                return vec![self.address(12, 8, to), cut];
            }
            Destination => self.address(16, 24, to),
            Protocol => Expression::Meta { key: MetaKey::L4Proto, to },
            Port => Expression::Payload { base: Base::Transport, offset: 2, length: 2, to },
            OriginalDestination => {
                let key =
                    if self.family == TableFamily::Ip { CtKey::DestinationIp } else { CtKey::DestinationIp6 };
                Expression::Ct { key, direction: Some(CtDirection::Original), to }
            }
            OriginalPort => {
                let direction = Some(CtDirection::Original);
                Expression::Ct { key: CtKey::ProtoDestination, direction, to }
            }
            Slot(modulus) => Expression::NumgenRandom { modulus, to },
        };
        vec![one]
    }

    /// Load the parts one behind the other; also the first register behind them.
    fn key(&self, parts: &[Part]) -> (Phrase, Reg) {
        let mut next = FIRST;
        let mut phrase = Vec::new();
        for part in parts {
            phrase.extend(self.load(*part, Reg(next)));
            next += self.width(*part);
        }
        (phrase, Reg(next))
    }

    fn lookup(&self, parts: &[Part], set: &'static str, to: Option<Reg>) -> Phrase {
        let (mut phrase, _) = self.key(parts);
        phrase.push(Expression::Lookup { set, key: Reg(FIRST), to, invert: false });
        phrase
    }

    pub(crate) fn is_in(&self, parts: &[Part], set: &'static str) -> Phrase {
        self.lookup(parts, set, None)
    }

    pub(crate) fn verdict_of(&self, parts: &[Part], map: &'static str) -> Phrase {
        self.lookup(parts, map, Some(Reg(0)))
    }

    pub(crate) fn redirect(&self, parts: &[Part], map: &'static str) -> Phrase {
        let mut phrase = self.lookup(parts, map, Some(Reg(FIRST)));
        let port = Reg(FIRST + self.address_length() / 4);
        phrase.push(Expression::Dnat { address: Reg(FIRST), port: Some(port) });
        phrase
    }

    /// Write the endpoint a packet goes to under the key, or delete it.
    pub(crate) fn pin(&self, parts: &[Part], map: &'static str, timeout_ms: Option<u64>) -> Phrase {
        let (mut phrase, behind) = self.key(parts);
        // nft starts the data at a register of 16 bytes; with IPv6 addresses that would not fit.
        let data = if self.family == TableFamily::Ip { Reg(behind.0.next_multiple_of(4)) } else { behind };
        phrase.extend(self.load(Destination, data));
        phrase.extend(self.load(Port, Reg(data.0 + self.width(Destination))));
        let op = if timeout_ms.is_some() { DynsetOp::Update } else { DynsetOp::Delete };
        phrase.push(Expression::Dynset { set: map, op, key: Reg(FIRST), data: Some(data), timeout_ms });
        phrase
    }

    /// Whether the source lies in a network whose prefix ends at a byte: as nft does it, only that is loaded.
    pub(crate) fn source_in(&self, op: CompareOp, prefix: &[u8]) -> Phrase {
        let offset = if self.family == TableFamily::Ip { 12 } else { 8 };
        let length = prefix.len() as u32;
        vec![
            Expression::Payload { base: Base::Network, offset, length, to: Reg(FIRST) },
            Expression::Compare { op, reg: Reg(FIRST), value: prefix.to_vec() },
        ]
    }

    pub(crate) fn protocol_is(&self, protocol: u8) -> Phrase {
        let mut phrase = self.load(Protocol, Reg(FIRST));
        phrase.push(Expression::Compare { op: CompareOp::Equal, reg: Reg(FIRST), value: vec![protocol] });
        phrase
    }

    /// `tcp dport != 0`, which lets nft know the protocol for the rest of the rule.
    pub(crate) fn has_port(&self, protocol: u8) -> Phrase {
        let mut phrase = self.protocol_is(protocol);
        phrase.extend(self.load(Port, Reg(FIRST)));
        phrase.push(Expression::Compare { op: CompareOp::NotEqual, reg: Reg(FIRST), value: vec![0, 0] });
        phrase
    }
}

pub(crate) fn interface(op: CompareOp, name: &[u8]) -> Phrase {
    vec![
        Expression::Meta { key: MetaKey::IifName, to: Reg(FIRST) },
        Expression::Compare { op, reg: Reg(FIRST), value: name.to_vec() },
    ]
}

const MARK: u32 = 0x4000;

fn change_mark(mask: u32, xor: u32) -> Phrase {
    let [mask, xor] = [mask, xor].map(|number| number.to_ne_bytes().to_vec());
    vec![
        Expression::Meta { key: MetaKey::Mark, to: Reg(FIRST) },
        Expression::Bitwise { from: Reg(FIRST), to: Reg(FIRST), mask, xor },
        Expression::SetMark { from: Reg(FIRST) },
    ]
}

pub(crate) fn set_mark() -> Phrase {
    change_mark(!MARK, MARK)
}

pub(crate) fn toggle_mark() -> Phrase {
    change_mark(u32::MAX, MARK)
}

pub(crate) fn is_marked() -> Phrase {
    bits(Expression::Meta { key: MetaKey::Mark, to: Reg(FIRST) }, MARK, CompareOp::NotEqual, 0)
}

pub(crate) fn is_new() -> Phrase {
    let state = Expression::Ct { key: CtKey::State, direction: None, to: Reg(FIRST) };
    bits(state, 8, CompareOp::NotEqual, 0)
}

pub(crate) fn is_redirected() -> Phrase {
    let status = Expression::Ct { key: CtKey::Status, direction: None, to: Reg(FIRST) };
    bits(status, 0x20, CompareOp::NotEqual, 0)
}

pub(crate) fn is_first_redirected() -> Phrase {
    let status = Expression::Ct { key: CtKey::Status, direction: None, to: Reg(FIRST) };
    bits(status, 0x28, CompareOp::Equal, 0x20)
}

fn bits(load: Expression<'static>, mask: u32, op: CompareOp, value: u32) -> Phrase {
    let mask = mask.to_ne_bytes().to_vec();
    let value = value.to_ne_bytes().to_vec();
    vec![
        load,
        Expression::Bitwise { from: Reg(FIRST), to: Reg(FIRST), mask, xor: vec![0; 4] },
        Expression::Compare { op, reg: Reg(FIRST), value },
    ]
}

pub(crate) fn goto(chain: &'static str) -> Phrase {
    vec![Expression::Verdict(VerdictCode::Goto(chain))]
}

pub(crate) fn jump(chain: &'static str) -> Phrase {
    vec![Expression::Verdict(VerdictCode::Jump(chain))]
}

pub(crate) fn verdict(code: VerdictCode<'static>) -> Phrase {
    vec![Expression::Verdict(code)]
}

pub(crate) fn masquerade() -> Phrase {
    vec![Expression::Masquerade { fully_random: true }]
}

pub(crate) fn reject(how: Reject) -> Phrase {
    vec![Expression::Reject(how)]
}
