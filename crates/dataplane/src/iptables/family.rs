//! One address family's tables: full and partial syncs, and whether what was written is still there.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use kernel::iptables::{Stamp, Table, Tables, ToolError};
use model::{Change, NodePlan, ServiceKey, ServicePlan};

use super::dialect::Dialect;
use super::frame::{Hook, MARTIANS};
use super::key::Key;
use super::matches::Matches;
use super::names::{ChainKind, is_service_chain};
use super::no_tools::NoTools;
use super::rule::Rule;
use super::saved::Saved;
use super::script::Script;
use super::service::{ServicePort, ports};
use super::shelf::Shelf;
use super::state::{Leaves, Place, State, leaves};
use super::tree::{Chain, Difference};
use super::watch::Watch;
use super::writes::Writes;
use crate::backend::{Committed, RuleCount, SyncError};

pub(super) struct FamilyTables<T> {
    pub(super) tables: Option<T>,
    pub(super) dialect: Dialect,
    pub(super) matches: Matches,
    pub(super) shelf: Shelf,
    pub(super) writes: Writes,
    state: State,
    watch: Watch,
    /// The last look found nothing to read.
    is_blind: bool,
    /// Of the last script.
    sections: u64,
}

/// The stamps before and after a write.
pub(super) struct Written {
    before: Option<Stamp>,
    after: Option<Stamp>,
    sections: u64,
}

impl<T: Tables> FamilyTables<T> {
    pub(super) fn new(tables: Option<T>, dialect: Dialect) -> FamilyTables<T> {
        let watch = Watch::new(Instant::now());
        let (matches, shelf, writes) = (Matches::default(), Shelf::default(), Writes::default());
        let state = State::new();
        FamilyTables { tables, dialect, matches, shelf, writes, state, watch, is_blind: false, sections: 0 }
    }

    /// Make the tables hold just these services, beside what others have there.
    pub(super) fn rewrite(
        &mut self,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> Result<Committed, SyncError> {
        let Some(tables) = &mut self.tables else { return self.without_tools(plans.is_empty()) };
        self.watch.before_writing(tables.stamp());
        self.dialect.lacks = self.matches.learn_all(tables, plans);
        self.state = State::new();
        let found = Table::BOTH.map(|table| find(tables, table, &self.dialect, node));
        let [filter, nat] = found;
        let found = [filter?, nat?];
        let started = Instant::now();
        let script = self.whole_script(&found, plans, node);
        drop(found);
        self.commit(script, started.elapsed(), true)
    }

    /// The other family was written. Where both are counted as one, that is no news here.
    pub(super) fn note_other(&mut self, other: &Written) {
        self.watch.advance(other.before, other.after, other.sections);
    }

    /// The stamps around what is done to this family.
    pub(super) fn written<R>(&mut self, write: impl FnOnce(&mut Self) -> R) -> (R, Written) {
        let stamp = |family: &mut Self| family.tables.as_mut().and_then(T::stamp);
        let before = stamp(self);
        self.sections = 0;
        let outcome = write(self);
        (outcome, Written { before, after: stamp(self), sections: self.sections })
    }

    fn without_tools(&self, is_nothing_to_do: bool) -> Result<Committed, SyncError> {
        match is_nothing_to_do {
            true => Ok(Committed::default()),
            false => Err(SyncError::new(NoTools(self.dialect.family))),
        }
    }

    fn whole_script(
        &mut self,
        found: &[Found; 2],
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> Script {
        let state = &mut self.state;
        state.set_node(&self.dialect, node);
        for (service, plan) in plans {
            state.insert(&leaves(service, Some(plan), self.dialect.lacks));
            state.hold(service, plan);
        }
        let mut script = Script::default();
        for table in Table::BOTH {
            let found = &found[table as usize];
            let saved = Saved::read(&found.text);
            let mut own = self.dialect.frame(table);
            own.extend(state.take(table).chains);
            let mut names: Vec<String> = own.iter().map(|chain| chain.name.clone()).collect();
            for_service_chains(plans, table, &self.dialect, |port, kind, _| {
                names.push(port.name.chain(kind).to_string())
            });
            let gone = if found.is_whole { stale(&saved, &names) } else { Vec::new() };
            names.extend(gone.iter().cloned());
            let hooks = missing_hooks(&self.dialect, &saved, table, node);
            names.extend(missing_chain(&hooks, &saved));
            let gone = {
                let written: HashSet<&str> = names.iter().map(String::as_str).collect();
                let used = saved.used_by_others(|chain| written.contains(chain));
                gone.into_iter().filter(|name| !used.contains(name.as_str())).collect::<Vec<String>>()
            };
            script.open(table, names);
            own.iter().for_each(|chain| script.chain(table, chain, None));
            for_service_chains(plans, table, &self.dialect, |port, kind, service| {
                script.chain(table, &port.chain(kind, &self.dialect), Some(service));
            });
            hooks.iter().rev().for_each(|hook| script.insert(hook.chain, &hook.words));
            script.close(&gone);
        }
        state.rules = script.written;
        script
    }

    /// Carry out some changes. Where one table must not lose what the other still relies on, the filter is written in
    /// two steps: what is to be refused first, then the translation, then what is no longer refused.
    pub(super) fn apply(
        &mut self,
        changes: &[Change<'_>],
        node: (&NodePlan, &NodePlan),
    ) -> Result<Committed, SyncError> {
        let Some(tables) = &mut self.tables else { return self.without_tools(changes.is_empty()) };
        self.watch.before_writing(tables.stamp());
        let plans = changes.iter().map(|change| (change.service, change.new));
        self.dialect.lacks = self.matches.learn(tables, plans);
        let mut script = Script::default();
        if self.dialect.hooks(Table::Filter, node.0) != self.dialect.hooks(Table::Filter, node.1) {
            let found = find(tables, Table::Filter, &self.dialect, node.1)?;
            write_hooks(&mut script, &self.dialect, &Saved::read(&found.text), node.1);
        }
        let started = Instant::now();
        let state = &mut self.state;
        if node.0 != node.1 {
            state.set_node(&self.dialect, node.1);
        }
        let mut chains = [ServiceChains::default(), ServiceChains::default()];
        let mut removed: Vec<Leaves> = Vec::with_capacity(changes.len());
        for change in changes {
            let new = leaves(change.service, change.new, self.dialect.lacks);
            let mut old = leaves(change.service, change.old, self.dialect.lacks);
            let still: HashSet<&(Place, Key, Rule)> = new.iter().collect();
            old.retain(|leaf| !still.contains(leaf));
            state.insert(&new);
            change.new.into_iter().for_each(|plan| state.hold(change.service, plan));
            removed.push(old);
            for table in Table::BOTH {
                chains[table as usize].compare(change, table, &self.dialect);
            }
        }
        let [filter, nat] = chains;
        write_section(&mut script, Table::Filter, state, ServiceChains { gone: Vec::new(), ..filter });
        let remove = |state: &mut State, table| {
            removed.iter().for_each(|old| state.remove(old, table));
            changes.iter().for_each(|change| state.release(change.service, change.old, table));
        };
        remove(state, Table::Nat);
        write_section(&mut script, Table::Nat, state, nat);
        remove(state, Table::Filter);
        let gone = ServiceChains { gone: filter.gone, ..ServiceChains::default() };
        write_section(&mut script, Table::Filter, state, gone);
        self.commit(script, started.elapsed(), false)
    }

    fn commit(&mut self, script: Script, rendering: Duration, whole: bool) -> Result<Committed, SyncError> {
        let Some(tables) = &mut self.tables else { return self.without_tools(script.is_empty()) };
        self.sections = script.sections;
        if !script.is_empty() {
            self.writes.note(script.text());
            tables.restore(script.text()).map_err(|error| {
                let line = match &error {
                    ToolError::Refused { line, .. } => *line,
                    _ => None,
                };
                SyncError::new(error).at(line.and_then(|line| script.owner(line)).cloned())
            })?;
        }
        match whole {
            true => self.watch.rewritten(tables.stamp(), script.sections, Instant::now()),
            false => self.watch.written(tables.stamp(), script.sections),
        }
        let rules = RuleCount { total: self.state.rules, written: script.written };
        let elements = rules.total.iter().sum();
        Ok(Committed { bytes: script.text().len(), elements, rendering, rules })
    }

    /// Costs a system call or two while no other process writes; else all rules are read, and not too often.
    pub(super) fn is_intact(&mut self, plans: &HashMap<ServiceKey, ServicePlan>, node: &NodePlan) -> bool {
        let Some(tables) = &mut self.tables else { return true };
        self.shelf.clear_old();
        let (stamp, started) = (tables.stamp(), Instant::now());
        if !self.watch.wants_look(stamp, started) {
            return true;
        }
        let saved = save(tables);
        let damage = saved.as_ref().ok().and_then(|saved| self.damage(saved, plans, node));
        if let Some((table, chain)) = &damage {
            let (family, table) = (self.dialect.family, table.name());
            tracing::warn!(%family, table, chain, "Chain does not contain the rules that were written to it");
        }
        let is_seen_whole = saved.is_ok() && damage.is_none();
        self.watch.looked(stamp, is_seen_whole, started, Instant::now());
        // What cannot be read says nothing about the rules; the next write will.
        self.tell_blindness(saved.as_ref().err());
        is_seen_whole || saved.is_err()
    }

    /// Once, and once more when it is over.
    fn tell_blindness(&mut self, error: Option<&SyncError>) {
        let family = self.dialect.family;
        match (error, std::mem::replace(&mut self.is_blind, error.is_some())) {
            (Some(error), false) => tracing::warn!(
                %family, %error,
                "Failed to read the rules; changes by other processes are repaired only by a restart or a change of \
                 the same service"
            ),
            (None, true) => tracing::info!(%family, "The rules can be read again"),
            _ => {}
        }
    }

    /// The first chain that does not hold what it should.
    fn damage(
        &self,
        saved: &[String; 2],
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> Option<(Table, String)> {
        Table::BOTH.into_iter().find_map(|table| {
            let saved = Saved::read(&saved[table as usize]);
            let hook = missing_hooks(&self.dialect, &saved, table, node).into_iter().next();
            let mut damaged = hook.map(|hook| hook.chain.to_owned());
            let mut compare = |chain: &Chain| {
                if damaged.is_none() && !saved.holds(&chain.name, &chain.text) {
                    damaged = Some(chain.name.clone());
                }
            };
            self.dialect.frame(table).iter().for_each(&mut compare);
            self.state.chains(table).iter().for_each(&mut compare);
            for_service_chains(plans, table, &self.dialect, |port, kind, _| {
                compare(&port.chain(kind, &self.dialect))
            });
            damaged.map(|chain| (table, chain))
        })
    }

    /// Every hook that is to be there, and every chain but those of services.
    pub(super) fn common(&self, node: &NodePlan) -> All {
        let mut all = All::default();
        for table in Table::BOTH {
            let common = self.dialect.frame(table).into_iter().chain(self.state.chains(table));
            all.chains.extend(common.map(|chain| (table, chain, None)));
            all.hooks.extend(self.dialect.hooks(table, node).into_iter().map(|hook| (table, hook)));
        }
        all
    }

    /// Remove every rule of this mode.
    pub(super) fn cleanup(&mut self) -> Result<(), SyncError> {
        let Some(tables) = &mut self.tables else { return Ok(()) };
        let saved = save(tables)?;
        match super::removal(&saved.concat()) {
            Some(script) => tables.restore(&script).map_err(SyncError::new),
            None => Ok(()),
        }
    }
}

/// All that is to be in the tables.
#[derive(Default)]
pub(super) struct All {
    pub(super) chains: Vec<(Table, Chain, Option<ServiceKey>)>,
    pub(super) hooks: Vec<(Table, Hook)>,
    /// Chains of services that are not among them are nobody's.
    pub(super) is_whole: bool,
}

impl All {
    /// Add the chains of services. For many of them it takes long.
    pub(super) fn add_services(&mut self, plans: &HashMap<ServiceKey, ServicePlan>, dialect: &Dialect) {
        for table in Table::BOTH {
            for_service_chains(plans, table, dialect, |port, kind, service| {
                self.chains.push((table, port.chain(kind, dialect), Some(service.clone())));
            });
        }
    }
}

/// A table as it is before a rewrite.
struct Found {
    text: String,
    /// Every rule of it is there. Else nothing is known of who leads to chains that are of no use any more.
    is_whole: bool,
}

/// Upstream too goes on where rules of nft in a table make it unreadable.
fn find<T: Tables>(
    tables: &mut T,
    table: Table,
    dialect: &Dialect,
    node: &NodePlan,
) -> Result<Found, SyncError> {
    let error = match tables.save(table) {
        Ok(text) => return Ok(Found { text, is_whole: true }),
        Err(error @ ToolError::Unreadable { .. }) => error,
        Err(error) => return Err(SyncError::new(error)),
    };
    tracing::warn!(
        family = %dialect.family, %error,
        "Failed to read the rules; writing them anyway, but changes by other processes go unnoticed and stale chains \
         stay"
    );
    let hooks = dialect.hooks(table, node);
    let asked: Vec<(&str, &str)> = hooks.iter().map(|hook| (hook.chain, hook.words.as_str())).collect();
    let text = tables.outline(table, &asked).map_err(SyncError::new)?;
    Ok(Found { text, is_whole: false })
}

fn save<T: Tables>(tables: &mut T) -> Result<[String; 2], SyncError> {
    let mut save = |table| tables.save(table).map_err(SyncError::new);
    Ok([save(Table::Filter)?, save(Table::Nat)?])
}

/// Visit the chains that services have in a table.
fn for_service_chains<'a>(
    plans: &'a HashMap<ServiceKey, ServicePlan>,
    table: Table,
    dialect: &Dialect,
    mut visit: impl FnMut(&ServicePort<'a>, ChainKind, &'a ServiceKey),
) {
    // In the same order each time, so that an error names the same line each time.
    let mut sorted: Vec<(&ServiceKey, &ServicePlan)> = plans.iter().collect();
    sorted.sort_unstable_by_key(|(service, _)| *service);
    for (service, plan) in sorted {
        for port in ports(service, plan, dialect.lacks) {
            for (_, kind) in port.kinds().into_iter().filter(|(at, _)| *at == table) {
                visit(&port, kind, service);
            }
        }
    }
}

/// Chains of services, or of trees, that are there and not wanted.
fn stale(saved: &Saved<'_>, wanted: &[String]) -> Vec<String> {
    let wanted: HashSet<&str> = wanted.iter().map(String::as_str).collect();
    let stale = saved.chains.iter().filter(|name| is_service_chain(name) && !wanted.contains(**name));
    stale.map(|name| (*name).to_owned()).collect()
}

/// Rules that are to stand in chains which are not ours alone, and do not.
fn missing_hooks(dialect: &Dialect, saved: &Saved<'_>, table: Table, node: &NodePlan) -> Vec<Hook> {
    let mut hooks = dialect.hooks(table, node);
    hooks.retain(|hook| !saved.has(hook.chain, &hook.words));
    hooks
}

/// A shared chain that is made where it is missing, and never emptied.
fn missing_chain(hooks: &[Hook], saved: &Saved<'_>) -> Option<String> {
    let is_meant = hooks.iter().any(|hook| hook.chain == MARTIANS);
    (is_meant && !saved.chains.contains(MARTIANS)).then(|| MARTIANS.to_owned())
}

/// What changed in the chains of services in one table.
#[derive(Default)]
struct ServiceChains {
    chains: Vec<(Chain, ServiceKey)>,
    gone: Vec<String>,
    rules_before: usize,
}

impl ServiceChains {
    fn compare(&mut self, change: &Change<'_>, table: Table, dialect: &Dialect) {
        let chains = |plan: Option<&ServicePlan>| -> Vec<Chain> {
            let of_port = |port: ServicePort<'_>| {
                let kinds = port.kinds().into_iter().filter(|(at, _)| *at == table);
                kinds.map(|(_, kind)| port.chain(kind, dialect)).collect::<Vec<_>>()
            };
            plan.into_iter()
                .flat_map(|plan| ports(change.service, plan, dialect.lacks))
                .flat_map(of_port)
                .collect()
        };
        let old: HashMap<String, Chain> =
            chains(change.old).into_iter().map(|chain| (chain.name.clone(), chain)).collect();
        let mut kept: HashSet<String> = HashSet::new();
        for chain in chains(change.new) {
            let before = old.get(&chain.name);
            kept.insert(chain.name.clone());
            if before != Some(&chain) {
                self.rules_before += before.map_or(0, |before| before.rules);
                self.chains.push((chain, change.service.clone()));
            }
        }
        for before in old.into_values().filter(|before| !kept.contains(&before.name)) {
            self.rules_before += before.rules;
            self.gone.push(before.name);
        }
    }
}

/// The hooks of the filter that a change of the node brings; those it ends do no harm.
fn write_hooks(script: &mut Script, dialect: &Dialect, saved: &Saved<'_>, node: &NodePlan) {
    let hooks = missing_hooks(dialect, saved, Table::Filter, node);
    script.open(Table::Filter, missing_chain(&hooks, saved).into_iter().collect());
    hooks.iter().rev().for_each(|hook| script.insert(hook.chain, &hook.words));
    script.close(&[]);
}

/// One table's part of a partial sync, if there is any.
fn write_section(script: &mut Script, table: Table, state: &mut State, services: ServiceChains) {
    let Difference { chains, mut gone, rules_before } = state.take(table);
    let total = &mut state.rules[table as usize];
    *total = total.saturating_sub(rules_before + services.rules_before);
    if chains.is_empty() && gone.is_empty() && services.chains.is_empty() && services.gone.is_empty() {
        return;
    }
    gone.extend(services.gone);
    let written_before = script.written[table as usize];
    let names =
        chains.iter().chain(services.chains.iter().map(|(chain, _)| chain)).map(|chain| chain.name.clone());
    script.open(table, names.chain(gone.iter().cloned()).collect());
    chains.iter().for_each(|chain| script.chain(table, chain, None));
    services.chains.iter().for_each(|(chain, owner)| script.chain(table, chain, Some(owner)));
    script.close(&gone);
    *total += script.written[table as usize] - written_before;
}
