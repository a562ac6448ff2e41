//! What happens to a packet on a hook: the tables there in the kernel's order, and NAT.

use std::sync::Arc;

use kernel::iptables::Table;

use super::Simulator;
use super::matching::{self, Situation};
use super::rule::{Refusal, Rule, Target};
use super::state::{Chain, Policy};
use crate::way::{Ended, Hooks, Way};
use crate::{HookPoint, Outcome, Place, Rejection, TraceStep};

/// Bytes of every packet that is walked, for the counters: a small first packet.
const PACKET_BYTES: u64 = 60;

/// The rules are those of the packet's family.
impl Hooks for Simulator {
    fn hook(&mut self, way: &mut Way<'_>, hook: HookPoint, interface: &str) -> Result<(), Ended> {
        Walker { simulator: self, way }.hook(hook, interface)
    }
}

struct Walker<'a, 'w> {
    simulator: &'a mut Simulator,
    way: &'a mut Way<'w>,
}

impl Walker<'_, '_> {
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
            true => self.way.flow.destination.is_none(),
            false => self.way.flow.source.is_none(),
        };
        if undecided && !self.way.flow.confirmed {
            self.table(Table::Nat, hook, interface)?;
        }
        if decides_destination {
            let to = *self.way.flow.destination.get_or_insert(self.way.flow.original.destination);
            (self.way.packet.destination, self.way.packet.destination_port) = to;
        } else {
            self.way.packet.source = *self.way.flow.source.get_or_insert(self.way.packet.source);
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
                Target::Masquerade { .. } if self.way.flow.source.is_some() => return Ok(()),
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
        let to_itself = knows_output && self.way.host.is_local(self.way.packet.destination);
        let mut situation = Situation {
            packet: &self.way.packet,
            flow: &self.way.flow,
            host: self.way.host,
            in_interface: interface,
            out_interface: if to_itself { "lo" } else { "" },
            lists: &mut self.simulator.lists,
            accounts: &mut self.simulator.accounts,
            now: self.simulator.now,
            draw: self.way.draw,
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
                let before = self.way.packet.mark;
                self.way.packet.mark = before & !mark.mask ^ mark.value;
                Some(format!("mark {before:#x} becomes {:#x}", self.way.packet.mark))
            }
            Target::Dnat { to, port } => {
                self.way.flow.destination = Some((to, port.unwrap_or(self.way.packet.destination_port)));
                None
            }
            Target::Masquerade { .. } => {
                self.way.flow.source = self.way.host.source_towards(self.way.packet.destination);
                let own = self.way.flow.source.map(|own| format!("masqueraded as {own}"));
                own.or_else(|| Some("no own address towards the destination, drop".to_owned()))
            }
            _ => None,
        }
    }

    fn note(&mut self, hook: HookPoint, chain: &str, index: usize, rule: &Rule, did: Option<String>) {
        let did = did.map(|did| format!(" ({did})")).unwrap_or_default();
        let text = format!("{}{did}", rule.to_string().trim_start());
        self.way.trace.push(TraceStep { hook, chain: chain.to_owned(), rule: index, text });
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
