//! Rules as nft prints them: the instructions are walked as the kernel would, with expressions in the registers.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use kernel::nft::{
    Base, CompareOp, CtDirection, CtKey, DynsetOp, Expression, Instruction, MetaKey, Reg, Reject,
    TableFamily, VerdictCode,
};
use serde_json::{Value, json};

use super::{Sizes, types};

/// The statements of a rule.
pub(super) fn statements(family: TableFamily, instructions: &[Instruction<'_>], sizes: &Sizes) -> Vec<Value> {
    let mut walk = Walk { family, sizes, registers: HashMap::new(), protocol: None, statements: Vec::new() };
    instructions.iter().for_each(|one| walk.step(one));
    walk.statements
}

/// What a register holds.
#[derive(Clone)]
struct Held {
    expression: Value,
    kind: Kind,
    words: usize,
    /// Bits that were kept, and bits that were flipped.
    masked: Option<(Vec<u8>, Vec<u8>)>,
}

/// What decides how a value beside it is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Address,
    Protocol,
    /// A number in the order of the network.
    Number,
    /// A number in the order of this machine.
    Mark,
    Name,
    CtState,
    CtStatus,
    TcpFlags,
    IcmpType,
}

const CT_STATES: [(u32, &str); 5] =
    [(1, "invalid"), (2, "established"), (4, "related"), (8, "new"), (64, "untracked")];
const CT_STATUSES: [(u32, &str); 6] =
    [(1, "expected"), (2, "seen-reply"), (4, "assured"), (8, "confirmed"), (16, "snat"), (32, "dnat")];
const TCP_FLAGS: [(u32, &str); 6] =
    [(1, "fin"), (2, "syn"), (4, "rst"), (8, "psh"), (16, "ack"), (32, "urg")];

struct Walk<'a> {
    family: TableFamily,
    sizes: &'a Sizes,
    registers: HashMap<usize, Held>,
    /// The protocol that the rule is about, by its match, which nft leaves out where a field says the same.
    protocol: Option<(u8, usize)>,
    statements: Vec<Value>,
}

/// A register by its place in words.
fn place(register: Reg) -> usize {
    let number = register.0 as usize;
    if number < 8 { number.saturating_sub(1) * 4 } else { number - 8 }
}

impl Walk<'_> {
    fn step(&mut self, instruction: &Instruction<'_>) {
        match instruction {
            Instruction::Known(expression) => self.known(expression),
            Instruction::Counted { packets, bytes } => {
                self.say(json!({ "counter": { "packets": packets, "bytes": bytes } }));
            }
            // nft has no such form.
            Instruction::Other(name) => self.say(json!({ "instruction": name })),
        }
    }

    fn say(&mut self, statement: Value) {
        self.statements.push(statement);
    }

    fn known(&mut self, expression: &Expression<'_>) {
        match expression {
            Expression::Payload { base, offset, length, to } => self.payload(*base, *offset, *length, *to),
            Expression::Meta { key, to } => {
                let (name, kind) = match key {
                    MetaKey::Mark => ("mark", Kind::Mark),
                    MetaKey::L4Proto => ("l4proto", Kind::Protocol),
                    MetaKey::IifName => ("iifname", Kind::Name),
                    MetaKey::OifName => ("oifname", Kind::Name),
                };
                let words = if kind == Kind::Name { 4 } else { 1 };
                self.load(*to, json!({ "meta": { "key": name } }), kind, words);
            }
            Expression::Ct { key, direction, to } => self.ct(*key, *direction, *to),
            Expression::NumgenRandom { modulus, to } => {
                let numgen = json!({ "numgen": { "mode": "random", "mod": modulus, "offset": 0 } });
                self.load(*to, numgen, Kind::Mark, 1);
            }
            Expression::Bitwise { from, to, mask, xor } => {
                if let Some(mut held) = self.registers.get(&place(*from)).cloned() {
                    held.masked = Some((mask.clone(), xor.clone()));
                    self.registers.insert(place(*to), held);
                }
            }
            Expression::Compare { op, reg, value } => self.compare(*op, *reg, value),
            Expression::SetMark { from } => {
                let value = self.whole(place(*from));
                self.say(json!({ "mangle": { "key": { "meta": { "key": "mark" } }, "value": value } }));
            }
            Expression::Lookup { set, key, to, invert } => self.lookup(set, *key, *to, *invert),
            Expression::Dynset { set, op, key, data, timeout_ms } => {
                self.dynset(set, *op, (*key, *data), *timeout_ms);
            }
            Expression::Dnat { address, .. } => {
                let to = self.whole(place(*address));
                self.say(json!({ "dnat": { "family": self.family.to_string(), "addr": to } }));
            }
            other => {
                let statement = self.ending(other);
                self.say(statement);
            }
        }
    }

    /// Statements that look at no register.
    fn ending(&mut self, expression: &Expression<'_>) -> Value {
        match expression {
            Expression::Verdict(code) => match code {
                VerdictCode::Accept => json!({ "accept": null }),
                VerdictCode::Drop => json!({ "drop": null }),
                VerdictCode::Return => json!({ "return": null }),
                VerdictCode::Jump(chain) => json!({ "jump": { "target": chain } }),
                VerdictCode::Goto(chain) => json!({ "goto": { "target": chain } }),
            },
            Expression::Masquerade { fully_random: true } => {
                json!({ "masquerade": { "flags": "fully-random" } })
            }
            Expression::Masquerade { fully_random: false } => json!({ "masquerade": null }),
            Expression::Reject(Reject::TcpReset) => {
                self.leave_protocol_out();
                json!({ "reject": { "type": "tcp reset" } })
            }
            Expression::Reject(Reject::PortUnreachable) => {
                let kind = match self.family {
                    TableFamily::Ip => "icmp",
                    TableFamily::Ip6 => "icmpv6",
                };
                json!({ "reject": { "type": kind, "expr": "port-unreachable" } })
            }
            Expression::Count(name) => json!({ "counter": name }),
            Expression::CountIn { map, key } => {
                json!({ "counter": { "map": { "key": self.key(*key, map), "data": format!("@{map}") } } })
            }
            _ => json!({ "counter": null }),
        }
    }

    fn load(&mut self, to: Reg, expression: Value, kind: Kind, words: usize) {
        self.registers.insert(place(to), Held { expression, kind, words, masked: None });
    }

    fn payload(&mut self, base: Base, offset: u32, length: u32, to: Reg) {
        let family = self.family.to_string();
        let field =
            |protocol: &str, field: &str| json!({ "payload": { "protocol": protocol, "field": field } });
        let (source, destination, address) = match self.family {
            TableFamily::Ip => (12, 16, 4),
            TableFamily::Ip6 => (8, 24, 16),
        };
        let words = length.div_ceil(4) as usize;
        match (base, offset, length) {
            (Base::Network, _, _) if length == address && [source, destination].contains(&offset) => {
                let name = if offset == source { "saddr" } else { "daddr" };
                self.load(to, field(&family, name), Kind::Address, words);
            }
            (Base::Transport, ..) => {
                let (protocol, name, kind) = match (self.protocol.map(|(number, _)| number), offset, length) {
                    (Some(6), 2, 2) => ("tcp", "dport", Kind::Number),
                    (Some(17), 2, 2) => ("udp", "dport", Kind::Number),
                    (Some(132), 2, 2) => ("sctp", "dport", Kind::Number),
                    (Some(6), 13, 1) => ("tcp", "flags", Kind::TcpFlags),
                    (Some(6), 4, 4) => ("tcp", "sequence", Kind::Number),
                    (Some(1), 0, 1) => ("icmp", "type", Kind::IcmpType),
                    (Some(58), 0, 1) => ("icmpv6", "type", Kind::IcmpType),
                    (_, 2, 2) => return self.load(to, field("th", "dport"), Kind::Number, 1),
                    _ => return self.load(to, raw("th", offset, length), Kind::Number, words),
                };
                self.leave_protocol_out();
                self.load(to, field(protocol, name), kind, words);
            }
            (Base::Network, ..) => self.load(to, raw("nh", offset, length), Kind::Number, words),
        }
    }

    /// A field or a reset tells the protocol.
    fn leave_protocol_out(&mut self) {
        if let Some((_, at)) = &mut self.protocol
            && *at < self.statements.len()
        {
            self.statements.remove(*at);
            *at = usize::MAX;
        }
    }

    fn ct(&mut self, key: CtKey, direction: Option<CtDirection>, to: Reg) {
        let (name, kind, words) = match key {
            CtKey::State => ("state", Kind::CtState, 1),
            CtKey::Direction => ("direction", Kind::Mark, 1),
            CtKey::Status => ("status", Kind::CtStatus, 1),
            CtKey::DestinationIp => ("ip daddr", Kind::Address, 1),
            CtKey::DestinationIp6 => ("ip6 daddr", Kind::Address, 4),
            CtKey::ProtoDestination => ("proto-dst", Kind::Number, 1),
        };
        let mut object = json!({ "key": name });
        if direction.is_some() {
            object["dir"] = "original".into();
        }
        self.load(to, json!({ "ct": object }), kind, words);
    }

    fn compare(&mut self, op: CompareOp, register: Reg, value: &[u8]) {
        let Some(held) = self.registers.get(&place(register)).cloned() else {
            return self.say(json!({ "instruction": "cmp" }));
        };
        let is_equal = op == CompareOp::Equal;
        let word = if is_equal { "==" } else { "!=" };
        if held.kind == Kind::Protocol && is_equal && held.masked.is_none() {
            self.protocol = value.first().map(|number| (*number, self.statements.len()));
        }
        let is_zero = value.iter().all(|byte| *byte == 0);
        let (op, left, right) = match &held.masked {
            None => (word, held.expression, constant(held.kind, value)),
            Some((mask, _)) if held.kind == Kind::Address && prefix(mask).is_some() => {
                let addr = constant(held.kind, value);
                let right = json!({ "prefix": { "addr": addr, "len": prefix(mask) } });
                (word, held.expression, right)
            }
            // Any of the bits.
            Some((mask, _))
                if !is_equal && is_zero && [Kind::CtState, Kind::CtStatus].contains(&held.kind) =>
            {
                ("in", held.expression, constant(held.kind, mask))
            }
            Some(_) => {
                let right = constant(held.kind, value);
                (word, self.whole(place(register)), right)
            }
        };
        self.say(json!({ "match": { "op": op, "left": left, "right": right } }));
    }

    fn lookup(&mut self, set: &str, key: Reg, to: Option<Reg>, invert: bool) {
        let found = self.key(key, set);
        let data = format!("@{set}");
        match to {
            None => {
                let op = if invert { "!=" } else { "==" };
                self.say(json!({ "match": { "op": op, "left": found, "right": data } }));
            }
            Some(Reg(0)) => self.say(json!({ "vmap": { "key": found, "data": data } })),
            Some(to) => self.load(to, json!({ "map": { "key": found, "data": data } }), Kind::Address, 1),
        }
    }

    fn dynset(&mut self, set: &str, op: DynsetOp, (key, data): (Reg, Option<Reg>), timeout_ms: Option<u64>) {
        let op = match op {
            DynsetOp::Update => "update",
            DynsetOp::Delete => "delete",
        };
        let (key_words, data_words) = self.sizes.get(set).copied().unwrap_or_default();
        let mut elem = self.concatenation(place(key), key_words);
        if let Some(timeout) = timeout_ms {
            elem = json!({ "elem": { "val": elem, "timeout": timeout / 1000 } });
        }
        let name = format!("@{set}");
        let statement = match data {
            Some(data) => {
                let data = self.concatenation(place(data), data_words);
                json!({ "map": { "op": op, "elem": elem, "data": data, "map": name } })
            }
            None => json!({ "set": { "op": op, "elem": elem, "set": name } }),
        };
        self.say(statement);
    }

    /// What a lookup in this set looks for.
    fn key(&self, register: Reg, set: &str) -> Value {
        self.concatenation(place(register), self.sizes.get(set).map_or(1, |(key, _)| *key))
    }

    /// The registers from `at` on that make up so many words.
    fn concatenation(&self, at: usize, words: usize) -> Value {
        let mut parts = Vec::new();
        let mut next = at;
        while next < at + words
            && let Some(held) = self.registers.get(&next)
        {
            parts.push(self.whole(next));
            next += held.words.max(1);
        }
        match parts.len() {
            1 => parts.remove(0),
            _ => json!({ "concat": parts }),
        }
    }

    /// With what was done to its bits.
    fn whole(&self, at: usize) -> Value {
        let Some(held) = self.registers.get(&at) else { return Value::Null };
        let Some((mask, xor)) = &held.masked else { return held.expression.clone() };
        let (left, is_plain) = (held.expression.clone(), xor.iter().all(|byte| *byte == 0));
        let keeps_all = mask.iter().all(|byte| *byte == 0xff);
        let is_set = mask.iter().zip(xor).all(|(mask, xor)| !mask == *xor);
        match () {
            () if is_plain => json!({ "&": [left, constant(held.kind, mask)] }),
            () if keeps_all => json!({ "^": [left, constant(held.kind, xor)] }),
            () if is_set => json!({ "|": [left, constant(held.kind, xor)] }),
            () => json!({ "^": [{ "&": [left, constant(held.kind, mask)] }, constant(held.kind, xor)] }),
        }
    }
}

/// In bits.
fn raw(base: &str, offset: u32, length: u32) -> Value {
    json!({ "payload": { "base": base, "offset": 8 * offset, "len": 8 * length } })
}

/// The length of a mask that is one of a network.
fn prefix(mask: &[u8]) -> Option<u32> {
    let ones: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
    let leading = mask.iter().position(|byte| *byte != 0xff);
    let leading = leading.map_or(8 * mask.len() as u32, |at| {
        8 * at as u32 + mask.get(at).map_or(0, |byte| byte.leading_ones())
    });
    (ones == leading).then_some(ones)
}

fn constant(kind: Kind, bytes: &[u8]) -> Value {
    let machine = || {
        let mut word = [0; 4];
        word.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
        u32::from_ne_bytes(word)
    };
    let network = || bytes.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    match kind {
        Kind::Address => match (bytes.first_chunk::<4>(), bytes.first_chunk::<16>()) {
            (_, Some(ip)) => Ipv6Addr::from(*ip).to_string().into(),
            (Some(ip), None) => Ipv4Addr::from(*ip).to_string().into(),
            (None, None) => network().into(),
        },
        Kind::Protocol => types::protocol(bytes.first().copied().unwrap_or_default()),
        Kind::Number => network().into(),
        Kind::Mark => machine().into(),
        Kind::Name => {
            let end = bytes.iter().position(|byte| *byte == 0);
            let name = String::from_utf8_lossy(bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default());
            // Without an end it is what names begin with.
            if end.is_some() { name.into_owned().into() } else { format!("{name}*").into() }
        }
        Kind::CtState => bits(&CT_STATES, machine()),
        Kind::CtStatus => bits(&CT_STATUSES, machine()),
        Kind::TcpFlags => bits(&TCP_FLAGS, u32::from(bytes.first().copied().unwrap_or_default())),
        Kind::IcmpType => match bytes.first() {
            Some(8 | 128) => "echo-request".into(),
            other => other.copied().unwrap_or_default().into(),
        },
    }
}

/// The names of the bits that are set; the number if one has no name.
fn bits(names: &[(u32, &str)], number: u32) -> Value {
    let found: Vec<&(u32, &str)> = names.iter().filter(|(bit, _)| number & bit != 0).collect();
    if found.iter().fold(0, |all, (bit, _)| all | bit) != number || found.is_empty() {
        return number.into();
    }
    match found.as_slice() {
        [(_, name)] => (*name).into(),
        several => several.iter().map(|(_, name)| Value::from(*name)).collect(),
    }
}
