//! A packet's way: hooks in the kernel's order, chains by priority, the routing decision, NAT.

use std::net::IpAddr;
use std::sync::Arc;

use kernel::nft::TableFamily;

use super::Simulator;
use super::instruction::Verdict;
use super::machine::{self, Effect, Situation};
use super::state::Rule;
use crate::{Delivery, Flow, Flows, HookPoint, Host, Journey, Origin, Outcome, Packet, Place, TraceStep};

/// Send the first packet of a connection through the host's rules. `draw` gives the random numbers: below
/// the number it is handed.
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
    let family = if packet.destination.is_ipv4() { TableFamily::Ip } else { TableFamily::Ip6 };
    let mut walker = Walker { simulator, host, flows, packet, flow, family, draw, trace: Vec::new() };
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
    family: TableFamily,
    draw: &'w mut dyn FnMut(u32) -> u32,
    trace: Vec<TraceStep>,
}

/// A packet that does not go on: what became of it, and where.
type Ended = (Outcome, Place);

struct BaseChain {
    table: String,
    name: String,
    nat: bool,
    priority: i32,
    registered: u64,
    accept: bool,
}

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

    /// Ask every chain on the hook. Nat chains are asked once for a connection, until one decides; when all
    /// have been asked, having decided nothing is a decision too.
    fn hook(&mut self, hook: HookPoint, interface: &str) -> Result<(), Ended> {
        let (before, nat, after) = self.chains(hook);
        for chain in &before {
            self.chain(hook, chain, interface)?;
        }
        for chain in &nat {
            if self.nat_pending(hook) {
                self.chain(hook, chain, interface)?;
            }
        }
        if self.has_nat() {
            self.translate(hook);
        }
        after.iter().try_for_each(|chain| self.chain(hook, chain, interface))
    }

    /// Without any nat chain, the kernel translates nothing, not even known connections.
    fn has_nat(&self) -> bool {
        let tables = self.simulator.state.tables(self.family).values();
        tables
            .flat_map(|table| table.chains.values())
            .any(|chain| chain.hook.as_ref().is_some_and(|hook| hook.nat))
    }

    fn nat_pending(&self, hook: HookPoint) -> bool {
        let undecided = match hook {
            HookPoint::Prerouting | HookPoint::Output => self.flow.destination.is_none(),
            HookPoint::Input | HookPoint::Postrouting => self.flow.source.is_none(),
            HookPoint::Forward => false,
        };
        undecided && !self.flow.confirmed
    }

    /// Change the packet as was decided for its connection.
    fn translate(&mut self, hook: HookPoint) {
        match hook {
            HookPoint::Prerouting | HookPoint::Output => {
                let to = *self.flow.destination.get_or_insert(self.flow.original.destination);
                (self.packet.destination, self.packet.destination_port) = to;
            }
            HookPoint::Input | HookPoint::Postrouting => {
                self.packet.source = *self.flow.source.get_or_insert(self.packet.source);
            }
            HookPoint::Forward => {}
        }
    }

    /// The chains on a hook, by priority: those before NAT, the nat chains, those behind.
    fn chains(&self, hook: HookPoint) -> (Vec<BaseChain>, Vec<BaseChain>, Vec<BaseChain>) {
        let all = self.base_chains(hook);
        let (nat, filter): (Vec<_>, Vec<_>) = all.into_iter().partition(|chain| chain.nat);
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
                    nat: base.nat,
                    priority: base.priority,
                    registered: chain.registered,
                    accept: base.accept,
                });
            }
        }
        found.sort_by_key(|chain| (chain.priority, std::cmp::Reverse(chain.registered)));
        found
    }

    fn chain(&mut self, hook: HookPoint, base: &BaseChain, interface: &str) -> Result<(), Ended> {
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
        let own_source: Option<IpAddr> = self.host.source_towards(self.packet.destination);
        let mut situation = Situation {
            family: self.family,
            table: &base.table,
            packet: &mut self.packet,
            interface,
            flow: &mut self.flow,
            own_source,
            now: self.simulator.now,
            draw: self.draw,
        };
        let run = machine::run(&rule.instructions, &mut self.simulator.state, &mut situation);
        if let Some(text) = run.text {
            self.trace.push(TraceStep { hook, chain: chain.to_owned(), rule: index, text });
        }
        run.effect
    }
}
