//! The nf_tables machine: what the instructions of one rule do with one packet. Those that look into sets
//! or write to them are in `lookup`.

use std::net::IpAddr;

use kernel::nft::TableFamily;

use super::header::{bytes_of, octets};
use super::instruction::*;
use super::state::State;
use super::words::{self, Label};
use crate::Flow;
use crate::{Packet, Rejection};

/// One packet at one hook, with all that a rule can see of it and change.
pub(super) struct Situation<'a> {
    pub(super) family: TableFamily,
    pub(super) table: &'a str,
    pub(super) packet: &'a mut Packet,
    /// Empty where no interface is involved yet.
    pub(super) interface: &'a str,
    /// Empty where it is not decided, and for any but the loopback interface.
    pub(super) output_interface: &'a str,
    pub(super) flow: &'a mut Flow,
    /// What masquerading would put in.
    pub(super) own_source: Option<IpAddr>,
    pub(super) now: u64,
    pub(super) draw: &'a mut dyn FnMut(u32) -> u32,
}

/// What a rule came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The next rule is up.
    Next,
    Verdict(Verdict),
    Reject(Rejection),
}

/// What a rule came to and, if it did anything, the words for it.
pub(super) struct Run {
    pub(super) effect: Effect,
    pub(super) text: Option<String>,
}

pub(super) fn run(rule: &[Instruction], state: &mut State, situation: &mut Situation<'_>) -> Run {
    let mut machine = Machine {
        state,
        at: situation,
        registers: [0; REGISTER_BYTES],
        labels: [const { None }; REGISTER_BYTES / 4],
        words: Vec::new(),
        acted: false,
    };
    let mut effect = Effect::Next;
    for one in rule {
        match machine.step(one) {
            Step::On => {}
            Step::Break => break,
            Step::End(end) => {
                effect = end;
                break;
            }
        }
    }
    let text = machine.acted.then(|| machine.words.join(", "));
    Run { effect, text }
}

pub(super) enum Step {
    On,
    /// The rule does not apply (any further).
    Break,
    End(Effect),
}

pub(super) struct Machine<'m, 'a> {
    pub(super) state: &'m mut State,
    pub(super) at: &'m mut Situation<'a>,
    pub(super) registers: [u8; REGISTER_BYTES],
    /// What each word of the registers was loaded with.
    labels: [Option<Label>; REGISTER_BYTES / 4],
    pub(super) words: Vec<String>,
    /// Whether the rule did more than look.
    pub(super) acted: bool,
}

impl Machine<'_, '_> {
    fn step(&mut self, one: &Instruction) -> Step {
        match one {
            Instruction::Payload { header, offset, length, to } => {
                let header_bytes = bytes_of(*header, self.at.packet);
                let Some(bytes) = header_bytes.get(*offset..offset + length) else { return Step::Break };
                self.store(*to, bytes, Some(Label::payload(*header, *offset, *length)))
            }
            Instruction::Meta { key, to } => self.meta(*key, *to),
            Instruction::SetMark { from } => self.set_mark(*from),
            Instruction::Ct { key, to } => self.ct(*key, *to),
            Instruction::Compare { op, from, value } => self.compare(*op, *from, value),
            Instruction::Bitwise { from, to, mask, xor } => self.bitwise(*from, *to, mask, xor),
            Instruction::Random { modulus, offset, to } => {
                let drawn = (self.at.draw)(*modulus) % *modulus;
                if *modulus > 1 {
                    self.words.push(format!("draws {} of {modulus}", drawn + 1));
                }
                self.store(*to, &(drawn + offset).to_ne_bytes(), None)
            }
            Instruction::Load { to, value } => self.store(*to, value, None),
            Instruction::Lookup { set, key, to, invert } => self.lookup(set, *key, *to, *invert),
            Instruction::Dynset { set, op, key, data, timeout, invert } => {
                let done = self.dynset(set, *op, *key, *data, *timeout);
                if done != *invert { Step::On } else { Step::Break }
            }
            Instruction::Verdict(verdict) => self.verdict(verdict.clone()),
            Instruction::Dnat { address, port } => self.dnat(*address, *port),
            Instruction::Masquerade => self.masquerade(),
            Instruction::Reject(how) => self.reject(*how),
            Instruction::Counter => Step::On,
            Instruction::Count(name) => self.count(name),
            Instruction::CountIn { map, key } => self.count_in(map, *key),
        }
    }

    pub(super) fn load(&self, register: Register, length: usize) -> &[u8] {
        self.registers.get(register.span(length)).unwrap_or_default()
    }

    /// The last word is filled up with zeroes.
    pub(super) fn store(&mut self, register: Register, bytes: &[u8], label: Option<Label>) -> Step {
        let span = register.span(bytes.len().next_multiple_of(4));
        if let Some(words) = self.labels.get_mut(span.start / 4..span.end / 4) {
            words.fill(None);
            if let Some(first) = words.first_mut() {
                *first = label;
            }
        }
        if let Some(room) = self.registers.get_mut(span) {
            room.fill(0);
            for (to, from) in room.iter_mut().zip(bytes) {
                *to = *from;
            }
        }
        Step::On
    }

    fn label(&self, register: Register) -> Option<&Label> {
        self.labels.get(register.span(0).start / 4)?.as_ref()
    }

    fn meta(&mut self, key: Meta, to: Register) -> Step {
        let label = Some(Label::meta(key));
        match key {
            Meta::Mark => self.store(to, &self.at.packet.mark.to_ne_bytes(), label),
            Meta::L4Proto => self.store(to, &[self.at.packet.protocol.number()], label),
            Meta::IifName => self.store(to, &padded(self.at.interface), label),
            Meta::OifName => self.store(to, &padded(self.at.output_interface), label),
        }
    }

    fn ct(&mut self, key: Ct, to: Register) -> Step {
        let label = Some(Label::ct(key));
        let (original, reply) = (self.at.flow.original.destination, self.at.flow.reply_destination());
        match key {
            Ct::State => self.store(to, &self.at.flow.state().to_ne_bytes(), label),
            // Only packets of clients are walked.
            Ct::Direction => self.store(to, &[0], label),
            Ct::Status => self.store(to, &self.at.flow.status().to_ne_bytes(), label),
            Ct::OriginalPort => self.store(to, &original.1.to_be_bytes(), label),
            Ct::ReplyPort => self.store(to, &reply.1.to_be_bytes(), label),
            Ct::OriginalDestination(length) => self.store_address(to, original.0, length, label),
            Ct::ReplyDestination(length) => self.store_address(to, reply.0, length, label),
        }
    }

    fn store_address(&mut self, to: Register, address: IpAddr, length: usize, label: Option<Label>) -> Step {
        let bytes = octets(address);
        if bytes.len() == length { self.store(to, &bytes, label) } else { Step::Break }
    }

    fn set_mark(&mut self, from: Register) -> Step {
        let mark = <[u8; 4]>::try_from(self.load(from, 4)).map(u32::from_ne_bytes).unwrap_or_default();
        if mark != self.at.packet.mark {
            self.words.push(format!("mark {:#x} becomes {mark:#x}", self.at.packet.mark));
            self.acted = true;
        }
        self.at.packet.mark = mark;
        Step::On
    }

    fn compare(&mut self, op: Compare, from: Register, value: &[u8]) -> Step {
        let held = self.load(from, value.len()).cmp(value);
        let holds = match op {
            Compare::Equal => held.is_eq(),
            Compare::NotEqual => held.is_ne(),
            Compare::Less => held.is_lt(),
            Compare::LessOrEqual => held.is_le(),
            Compare::Greater => held.is_gt(),
            Compare::GreaterOrEqual => held.is_ge(),
        };
        if !holds {
            return Step::Break;
        }
        if let Some(text) = self.label(from).map(|label| label.compared(op, value)) {
            self.words.push(text);
        }
        Step::On
    }

    fn bitwise(&mut self, from: Register, to: Register, mask: &[u8], xor: &[u8]) -> Step {
        let label = self.label(from).map(|label| label.masked(mask));
        let held = self.load(from, mask.len()).iter();
        let result: Vec<u8> =
            held.zip(mask.iter().zip(xor)).map(|(byte, (mask, xor))| byte & mask ^ xor).collect();
        self.store(to, &result, label)
    }

    fn verdict(&mut self, verdict: Verdict) -> Step {
        if !matches!(verdict, Verdict::Continue | Verdict::Break) {
            self.acted = true;
            self.words.push(words::verdict(&verdict));
        }
        end(verdict)
    }

    /// The first NAT decision about a connection stands; the packet changes when the chain is left.
    fn dnat(&mut self, address: Option<Register>, port: Option<Register>) -> Step {
        let length = if self.at.family == TableFamily::Ip { 4 } else { 16 };
        let packet = &self.at.packet;
        let to =
            address.and_then(|address| words::ip(self.load(address, length))).unwrap_or(packet.destination);
        let port = port
            .and_then(|port| <[u8; 2]>::try_from(self.load(port, 2)).ok())
            .map_or(packet.destination_port, u16::from_be_bytes);
        self.at.flow.destination = Some((to, port));
        self.acted = true;
        self.words.push(format!("redirected to {to} port {port}"));
        end(Verdict::Accept)
    }

    fn masquerade(&mut self) -> Step {
        self.acted = true;
        let Some(source) = self.at.own_source else {
            self.words.push("masquerade: no own address towards the destination, drop".to_owned());
            return end(Verdict::Drop);
        };
        self.at.flow.source = Some(source);
        self.words.push(format!("masqueraded as {source}"));
        end(Verdict::Accept)
    }

    fn reject(&mut self, how: Refusal) -> Step {
        self.acted = true;
        let (rejection, text) = match how {
            Refusal::TcpReset => (Rejection::TcpReset, "rejected with a TCP reset"),
            Refusal::Icmp => (Rejection::PortUnreachable, "rejected with ICMP port unreachable"),
        };
        self.words.push(text.to_owned());
        Step::End(Effect::Reject(rejection))
    }
}

pub(super) fn end(verdict: Verdict) -> Step {
    match verdict {
        Verdict::Continue => Step::On,
        Verdict::Break => Step::Break,
        other => Step::End(Effect::Verdict(other)),
    }
}

fn padded(interface: &str) -> [u8; 16] {
    let mut name = [0; 16];
    for (to, from) in name.iter_mut().take(15).zip(interface.bytes()) {
        *to = from;
    }
    name
}
