//! What happens to a packet on a hook: the chains there by priority, and NAT.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use kernel::nft::{HookKind, TableFamily};

use super::Simulator;
use super::instruction::Verdict;
use super::machine::{self, Effect, Situation};
use super::state::Rule;
use crate::way::{Ended, Hooks, Way};
use crate::{HookPoint, Outcome, Place, TraceStep};

impl Hooks for Simulator {
    fn hook(&mut self, way: &mut Way<'_>, hook: HookPoint, interface: &str) -> Result<(), Ended> {
        self.before_nat(way, hook, interface, &ALL)?;
        self.nat(way, hook, interface)?;
        self.after_nat(way, hook, interface, &ALL)
    }
}

/// The priorities of all chains.
pub(crate) const ALL: RangeInclusive<i32> = i32::MIN..=i32::MAX;

impl Simulator {
    /// The chains that are asked before NAT, as far as their priority is among these.
    pub(crate) fn before_nat(
        &mut self,
        way: &mut Way<'_>,
        hook: HookPoint,
        interface: &str,
        priorities: &RangeInclusive<i32>,
    ) -> Result<(), Ended> {
        let mut walker = self.walker(way);
        let chains = walker.chains(hook).0;
        walker.filters(hook, &chains, interface, priorities)
    }

    /// Nat chains are asked once for a connection, until one decides; when all have been asked, having decided nothing
    /// is a decision too.
    pub(crate) fn nat(&mut self, way: &mut Way<'_>, hook: HookPoint, interface: &str) -> Result<(), Ended> {
        let mut walker = self.walker(way);
        for chain in &walker.chains(hook).1 {
            if walker.nat_pending(hook) {
                walker.chain(hook, chain, interface)?;
            }
        }
        if walker.has_nat() {
            walker.translate(hook);
        }
        Ok(())
    }

    /// The chains that are asked behind NAT, as far as their priority is among these.
    pub(crate) fn after_nat(
        &mut self,
        way: &mut Way<'_>,
        hook: HookPoint,
        interface: &str,
        priorities: &RangeInclusive<i32>,
    ) -> Result<(), Ended> {
        let mut walker = self.walker(way);
        let chains = walker.chains(hook).2;
        walker.filters(hook, &chains, interface, priorities)
    }

    fn walker<'a, 'w>(&'a mut self, way: &'a mut Way<'w>) -> Walker<'a, 'w> {
        let family = if way.packet.destination.is_ipv4() { TableFamily::Ip } else { TableFamily::Ip6 };
        Walker { simulator: self, way, family }
    }
}

struct Walker<'a, 'w> {
    simulator: &'a mut Simulator,
    way: &'a mut Way<'w>,
    family: TableFamily,
}

struct BaseChain {
    table: String,
    name: String,
    kind: HookKind,
    priority: i32,
    registered: u64,
    accept: bool,
}

impl Walker<'_, '_> {
    fn filters(
        &mut self,
        hook: HookPoint,
        chains: &[BaseChain],
        interface: &str,
        priorities: &RangeInclusive<i32>,
    ) -> Result<(), Ended> {
        let mut asked = chains.iter().filter(|chain| priorities.contains(&chain.priority));
        asked.try_for_each(|chain| self.chain(hook, chain, interface))
    }

    /// Without any nat chain, the kernel translates nothing, not even known connections.
    fn has_nat(&self) -> bool {
        let tables = self.simulator.state.tables(self.family).values();
        tables
            .flat_map(|table| table.chains.values())
            .any(|chain| chain.hook.as_ref().is_some_and(|hook| hook.is_nat()))
    }

    fn nat_pending(&self, hook: HookPoint) -> bool {
        let undecided = match hook {
            HookPoint::Prerouting | HookPoint::Output => self.way.flow.destination.is_none(),
            HookPoint::Input | HookPoint::Postrouting => self.way.flow.source.is_none(),
            HookPoint::Forward => false,
        };
        undecided && !self.way.flow.confirmed
    }

    /// Change the packet as was decided for its connection.
    fn translate(&mut self, hook: HookPoint) {
        match hook {
            HookPoint::Prerouting | HookPoint::Output => {
                let to = *self.way.flow.destination.get_or_insert(self.way.flow.original.destination);
                (self.way.packet.destination, self.way.packet.destination_port) = to;
            }
            HookPoint::Input | HookPoint::Postrouting => {
                self.way.packet.source = *self.way.flow.source.get_or_insert(self.way.packet.source);
            }
            HookPoint::Forward => {}
        }
    }

    /// The chains on a hook, by priority: those before NAT, the nat chains, those behind.
    fn chains(&self, hook: HookPoint) -> (Vec<BaseChain>, Vec<BaseChain>, Vec<BaseChain>) {
        let all = self.base_chains(hook);
        let (nat, filter): (Vec<_>, Vec<_>) = all.into_iter().partition(|chain| chain.kind == HookKind::Nat);
        let turn = if hook == HookPoint::Prerouting || hook == HookPoint::Output { -100 } else { 100 };
        let (before, after) = filter.into_iter().partition(|chain| chain.priority < turn);
        (before, nat, after)
    }

    fn base_chains(&self, hook: HookPoint) -> Vec<BaseChain> {
        let mut found = Vec::new();
        for (table, content) in self.simulator.state.tables(self.family) {
            for (name, chain) in &content.chains {
                let Some(base) = chain.hook.as_ref().filter(|base| base.number == hook.number()) else {
                    continue;
                };
                found.push(BaseChain {
                    table: table.clone(),
                    name: name.clone(),
                    kind: base.kind,
                    priority: base.priority,
                    registered: chain.registered,
                    accept: base.accept,
                });
            }
        }
        found.sort_by_key(|chain| (chain.priority, std::cmp::Reverse(chain.registered)));
        found
    }

    /// Through one base chain. A change of the mark in a route chain has the packet routed again.
    fn chain(&mut self, hook: HookPoint, base: &BaseChain, interface: &str) -> Result<(), Ended> {
        let mark = self.way.packet.mark;
        self.rules(hook, base, interface)?;
        if base.kind == HookKind::Route && self.way.packet.mark != mark {
            self.way.loops = None;
        }
        Ok(())
    }

    fn rules(&mut self, hook: HookPoint, base: &BaseChain, interface: &str) -> Result<(), Ended> {
        let place = |chain: &str| Place { hook, chain: Some(chain.to_owned()) };
        let mut callers: Vec<(String, usize)> = Vec::new();
        let (mut chain, mut index) = (base.name.clone(), 0);
        loop {
            let Some(rule) = self.rule(&base.table, &chain, index) else {
                match callers.pop() {
                    Some(caller) => (chain, index) = caller,
                    None if base.accept => return Ok(()),
                    None => return Err((Outcome::Dropped, place(&base.name))),
                }
                continue;
            };
            match self.run(hook, base, &chain, index, &rule, interface) {
                Effect::Next | Effect::Verdict(Verdict::Continue | Verdict::Break) => index += 1,
                Effect::Verdict(Verdict::Accept) => return Ok(()),
                Effect::Verdict(Verdict::Drop) => return Err((Outcome::Dropped, place(&chain))),
                Effect::Reject(how) => return Err((Outcome::Rejected(how), place(&chain))),
                // As at the end of the chain.
                Effect::Verdict(Verdict::Return) => index = usize::MAX,
                Effect::Verdict(Verdict::Jump(target)) => {
                    callers.push((chain, index + 1));
                    (chain, index) = (target, 0);
                }
                Effect::Verdict(Verdict::Goto(target)) => (chain, index) = (target, 0),
            }
        }
    }

    fn rule(&self, table: &str, chain: &str, index: usize) -> Option<Arc<Rule>> {
        self.simulator.state.table(self.family, table)?.chains.get(chain)?.rules.get(index).cloned()
    }

    fn run(
        &mut self,
        hook: HookPoint,
        base: &BaseChain,
        chain: &str,
        index: usize,
        rule: &Rule,
        interface: &str,
    ) -> Effect {
        let own_source: Option<IpAddr> = self.way.host.source_towards(self.way.packet.destination);
        let outgoing = matches!(hook, HookPoint::Output | HookPoint::Postrouting);
        let way = &*self.way;
        let loops = outgoing && way.loops.unwrap_or_else(|| way.host.is_local(way.packet.destination));
        let mut situation = Situation {
            family: self.family,
            table: &base.table,
            packet: &mut self.way.packet,
            interface,
            output_interface: if loops { "lo" } else { "" },
            flow: &mut self.way.flow,
            own_source,
            now: self.simulator.now,
            draw: self.way.draw,
        };
        let run = machine::run(&rule.instructions, &mut self.simulator.state, &mut situation);
        if let Some(text) = run.text {
            self.way.trace.push(TraceStep { hook, chain: chain.to_owned(), rule: index, text });
        }
        run.effect
    }
}
