//! A packet's way: the tables on each hook in the kernel's order, the routing decision, NAT.

use std::sync::Arc;

use kernel::iptables::Table;

use super::Simulator;
use super::matching::{self, Situation};
use super::rule::{Refusal, Rule, Target};
use super::state::{Chain, Policy};
use crate::{
    Delivery, Flow, Flows, HookPoint, Host, Journey, Origin, Outcome, Packet, Place, Rejection, TraceStep,
};

/// Bytes of every packet that is walked, for the counters: a small first packet.
const PACKET_BYTES: u64 = 60;

/// Send the first packet of a connection through the host's rules, which are those of the packet's family. `draw`
/// gives the random numbers: below the number it is handed.
pub fn walk(
    simulator: &mut Simulator,
    host: &Host,
    packet: Packet,
    draw: &mut dyn FnMut(u32) -> u32,
) -> Journey {
    walk_with(simulator, host, &mut Flows::new(), packet, draw)
}

/// As [`walk`], with the connections the host knows already; one that gets through becomes known.
pub fn walk_with(
    simulator: &mut Simulator,
    host: &Host,
    flows: &mut Flows,
    packet: Packet,
    draw: &mut dyn FnMut(u32) -> u32,
) -> Journey {
    let flow = flows.track(&packet);
    let mut walker = Walker { simulator, host, flows, packet, flow, draw, trace: Vec::new() };
    let (outcome, ended) = match walker.route() {
        Ok((outcome, hook)) => (outcome, Place { hook, chain: None }),
        Err((outcome, place)) => (outcome, place),
    };
    Journey { outcome, ended, trace: walker.trace }
}

struct Walker<'w> {
    simulator: &'w mut Simulator,
    host: &'w Host,
    flows: &'w mut Flows,
    /// As it is now; NAT changes it.
    packet: Packet,
    flow: Flow,
    draw: &'w mut dyn FnMut(u32) -> u32,
    trace: Vec<TraceStep>,
}

/// A packet that does not go on: what became of it, and where.
type Ended = (Outcome, Place);

impl Walker<'_> {
    fn route(&mut self) -> Result<(Outcome, HookPoint), Ended> {
        let Origin::Interface(interface) = self.packet.origin.clone() else {
            return self.route_own();
        };
        self.hook(HookPoint::Prerouting, &interface)?;
        if self.host.is_local(self.packet.destination) {
            return self.deliver(&interface);
        }
        self.hook(HookPoint::Forward, &interface)?;
        self.hook(HookPoint::Postrouting, &interface)?;
        self.flows.confirm(&mut self.flow);
        Ok((Outcome::Delivered(self.delivery()), HookPoint::Postrouting))
    }

    /// What the host sends to itself goes out and comes in again over the loopback interface, as the same
    /// connection: still "new", but confirmed and with its NAT decided.
    fn route_own(&mut self) -> Result<(Outcome, HookPoint), Ended> {
        self.hook(HookPoint::Output, "")?;
        self.hook(HookPoint::Postrouting, "")?;
        self.flows.confirm(&mut self.flow);
        if !self.host.is_local(self.packet.destination) {
            return Ok((Outcome::Delivered(self.delivery()), HookPoint::Postrouting));
        }
        self.hook(HookPoint::Prerouting, "lo")?;
        self.deliver("lo")
    }

    fn deliver(&mut self, interface: &str) -> Result<(Outcome, HookPoint), Ended> {
        self.hook(HookPoint::Input, interface)?;
        self.flows.confirm(&mut self.flow);
        Ok((Outcome::Local(self.delivery()), HookPoint::Input))
    }

    fn delivery(&self) -> Delivery {
        Delivery {
            to: self.packet.destination,
            port: self.packet.destination_port,
            source: self.packet.source,
            masqueraded: self.flow.is_masqueraded(),
            mark: self.packet.mark,
        }
    }

    /// NAT comes first where destinations are decided, and last where sources are.
    fn hook(&mut self, hook: HookPoint, interface: &str) -> Result<(), Ended> {
        match hook {
            HookPoint::Prerouting | HookPoint::Postrouting => self.nat(hook, interface),
            HookPoint::Forward => self.table(Table::Filter, hook, interface),
            HookPoint::Output => {
                self.nat(hook, interface)?;
                self.table(Table::Filter, hook, interface)
            }
            HookPoint::Input => {
                self.table(Table::Filter, hook, interface)?;
                self.nat(hook, interface)
            }
        }
    }

    /// Rules are asked once for a connection; having decided nothing is a decision too.
    fn nat(&mut self, hook: HookPoint, interface: &str) -> Result<(), Ended> {
        let decides_destination = matches!(hook, HookPoint::Prerouting | HookPoint::Output);
        let undecided = match decides_destination {
            true => self.flow.destination.is_none(),
            false => self.flow.source.is_none(),
        };
        if undecided && !self.flow.confirmed {
            self.table(Table::Nat, hook, interface)?;
        }
        if decides_destination {
            let to = *self.flow.destination.get_or_insert(self.flow.original.destination);
            (self.packet.destination, self.packet.destination_port) = to;
        } else {
            self.packet.source = *self.flow.source.get_or_insert(self.packet.source);
        }
        Ok(())
    }

    fn table(&mut self, table: Table, hook: HookPoint, interface: &str) -> Result<(), Ended> {
        let first = chain_of(hook);
        let place = |chain: &str| Place { hook, chain: Some(chain.to_owned()) };
        let mut callers: Vec<(String, usize)> = Vec::new();
        let (mut chain, mut index) = (first.to_owned(), 0);
        loop {
            let Some(rule) = self.rule(table, &chain, index) else {
                match callers.pop() {
                    Some(caller) => (chain, index) = caller,
                    None if self.policy(table, first) == Policy::Accept => return Ok(()),
                    None => return Err((Outcome::Dropped, place(first))),
                }
                continue;
            };
            if !self.matches(&rule, hook, interface) {
                index += 1;
                continue;
            }
            self.count(table, &chain, index);
            let did = self.act(&rule);
            if rule.target != Target::None {
                self.note(hook, &chain, index, &rule, did);
            }
            match &rule.target {
                Target::None | Target::SetMark(_) => index += 1,
                Target::Accept | Target::Dnat { .. } => return Ok(()),
                Target::Masquerade { .. } if self.flow.source.is_some() => return Ok(()),
                Target::Drop | Target::Masquerade { .. } => return Err((Outcome::Dropped, place(&chain))),
                Target::Reject(how) => return Err((Outcome::Rejected(rejection(*how)), place(&chain))),
                // As at the end of the chain.
                Target::Return => index = usize::MAX,
                Target::Jump(target) => {
                    callers.push((chain, index + 1));
                    (chain, index) = (target.clone(), 0);
                }
                Target::Goto(target) => (chain, index) = (target.clone(), 0),
            }
        }
    }

    fn rule(&self, table: Table, chain: &str, index: usize) -> Option<Arc<Rule>> {
        Some(Arc::clone(&self.simulator.table(table).chain(chain)?.entries.get(index)?.rule))
    }

    fn matches(&mut self, rule: &Rule, hook: HookPoint, interface: &str) -> bool {
        let knows_output = matches!(hook, HookPoint::Forward | HookPoint::Output | HookPoint::Postrouting);
        let to_itself = knows_output && self.host.is_local(self.packet.destination);
        let mut situation = Situation {
            packet: &self.packet,
            flow: &self.flow,
            host: self.host,
            in_interface: interface,
            out_interface: if to_itself { "lo" } else { "" },
            lists: &mut self.simulator.lists,
            accounts: &mut self.simulator.accounts,
            now: self.simulator.now,
            draw: self.draw,
        };
        matching::matches(rule, &mut situation)
    }

    fn chain_mut(&mut self, table: Table, chain: &str) -> Option<&mut Chain> {
        self.simulator.table_mut(table).chain_mut(chain).ok()
    }

    fn count(&mut self, table: Table, chain: &str, index: usize) {
        let chain = self.chain_mut(table, chain);
        if let Some(entry) = chain.and_then(|chain| chain.entries.get_mut(index)) {
            entry.counters.packets += 1;
            entry.counters.bytes += PACKET_BYTES;
        }
    }

    fn policy(&mut self, table: Table, chain: &str) -> Policy {
        let Some(chain) = self.chain_mut(table, chain) else { return Policy::Accept };
        chain.counters.packets += 1;
        chain.counters.bytes += PACKET_BYTES;
        chain.policy.unwrap_or(Policy::Accept)
    }

    /// Carry out what changes the packet or its connection; the words for what the rule does not say itself.
    fn act(&mut self, rule: &Rule) -> Option<String> {
        match rule.target {
            Target::SetMark(mark) => {
                let before = self.packet.mark;
                self.packet.mark = before & !mark.mask ^ mark.value;
                Some(format!("mark {before:#x} becomes {:#x}", self.packet.mark))
            }
            Target::Dnat { to, port } => {
                self.flow.destination = Some((to, port.unwrap_or(self.packet.destination_port)));
                None
            }
            Target::Masquerade { .. } => {
                self.flow.source = self.host.source_towards(self.packet.destination);
                let own = self.flow.source.map(|own| format!("masqueraded as {own}"));
                own.or_else(|| Some("no own address towards the destination, drop".to_owned()))
            }
            _ => None,
        }
    }

    fn note(&mut self, hook: HookPoint, chain: &str, index: usize, rule: &Rule, did: Option<String>) {
        let did = did.map(|did| format!(" ({did})")).unwrap_or_default();
        let text = format!("{}{did}", rule.to_string().trim_start());
        self.trace.push(TraceStep { hook, chain: chain.to_owned(), rule: index, text });
    }
}

fn chain_of(hook: HookPoint) -> &'static str {
    match hook {
        HookPoint::Prerouting => "PREROUTING",
        HookPoint::Input => "INPUT",
        HookPoint::Forward => "FORWARD",
        HookPoint::Output => "OUTPUT",
        HookPoint::Postrouting => "POSTROUTING",
    }
}

fn rejection(how: Refusal) -> Rejection {
    match how {
        Refusal::TcpReset => Rejection::TcpReset,
        Refusal::PortUnreachable { .. } => Rejection::PortUnreachable,
    }
}
