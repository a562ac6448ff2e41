//! What one table holds: chains of rules, and how often each chain is led to.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use kernel::iptables::Table;

use super::rule::Rule;

/// What a chain that hangs on a hook does with packets at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    Accept,
    Drop,
}

impl Policy {
    pub(super) fn name(self) -> &'static str {
        match self {
            Policy::Accept => "ACCEPT",
            Policy::Drop => "DROP",
        }
    }
}

/// How many packets a rule or a policy has met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub packets: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) rule: Arc<Rule>,
    pub(super) counters: Counters,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    /// Of a chain that is always there.
    pub(super) policy: Option<Policy>,
    pub(super) counters: Counters,
    pub(super) entries: Vec<Entry>,
}

/// A copy shares its chains until either changes.
#[derive(Clone, Debug)]
pub(super) struct TableState {
    pub(super) table: Table,
    chains: BTreeMap<String, Arc<Chain>>,
    references: BTreeMap<String, usize>,
}

impl TableState {
    pub(super) fn new(table: Table) -> TableState {
        let chain = Arc::new(Chain { policy: Some(Policy::Accept), ..Chain::default() });
        let chains = builtin(table).iter().map(|name| ((*name).to_owned(), Arc::clone(&chain))).collect();
        TableState { table, chains, references: BTreeMap::new() }
    }

    pub(super) fn builtin(&self) -> &'static [&'static str] {
        builtin(self.table)
    }

    /// Those that are always there first, then by name.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let made = self.chains.iter().filter(|(_, chain)| chain.policy.is_none());
        self.builtin().iter().copied().chain(made.map(|(name, _)| name.as_str()))
    }

    pub(super) fn chain(&self, name: &str) -> Option<&Chain> {
        self.chains.get(name).map(Arc::as_ref)
    }

    pub(super) fn chain_mut(&mut self, name: &str) -> Result<&mut Chain, String> {
        let chain = self.chains.get_mut(name).ok_or_else(|| format!("no chain `{name}`"))?;
        Ok(Arc::make_mut(chain))
    }

    pub(super) fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.chains.values().flat_map(|chain| &chain.entries).map(|entry| &*entry.rule)
    }

    /// Leaves one that is there as it is.
    pub(super) fn make(&mut self, name: &str) {
        self.chains.entry(name.to_owned()).or_default();
    }

    pub(super) fn insert(&mut self, name: &str, at: usize, entry: Entry) -> Result<(), String> {
        let target = entry.rule.leads_to().map(str::to_owned);
        let entries = &mut self.chain_mut(name)?.entries;
        if at > entries.len() {
            return Err("index of insertion too big".to_owned());
        }
        entries.insert(at, entry);
        if let Some(target) = target {
            *self.references.entry(target).or_default() += 1;
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str, at: usize) -> Result<(), String> {
        let entries = &mut self.chain_mut(name)?.entries;
        if at >= entries.len() {
            return Err("no rule of that number".to_owned());
        }
        let gone = entries.remove(at);
        self.release(&gone);
        Ok(())
    }

    pub(super) fn flush(&mut self, name: &str) -> Result<(), String> {
        let gone = std::mem::take(&mut self.chain_mut(name)?.entries);
        gone.iter().for_each(|entry| self.release(entry));
        Ok(())
    }

    fn release(&mut self, gone: &Entry) {
        if let Some(count) = gone.rule.leads_to().and_then(|target| self.references.get_mut(target)) {
            *count -= 1;
        }
    }

    pub(super) fn delete(&mut self, name: &str) -> Result<(), String> {
        let chain = self.chain(name).ok_or_else(|| format!("no chain `{name}`"))?;
        if chain.policy.is_some() {
            return Err(format!("`{name}` cannot be deleted"));
        }
        if !chain.entries.is_empty() {
            return Err(format!("chain `{name}` is not empty"));
        }
        if self.references.get(name).is_some_and(|count| *count > 0) {
            return Err(format!("chain `{name}` is referred to"));
        }
        self.chains.remove(name);
        Ok(())
    }

    /// As `iptables-save -t` prints it.
    pub(super) fn save(&self) -> String {
        let mut text = format!("# Simulated\n*{}\n", self.table.name());
        let chains = || self.names().filter_map(|name| Some((name, self.chain(name)?)));
        for (name, chain) in chains() {
            let policy = chain.policy.map_or("-", Policy::name);
            let Counters { packets, bytes } = chain.counters;
            let _ = writeln!(text, ":{name} {policy} [{packets}:{bytes}]");
        }
        for (name, chain) in chains() {
            for entry in &chain.entries {
                let _ = writeln!(text, "-A {name}{}", entry.rule);
            }
        }
        text.push_str("COMMIT\n# Completed\n");
        text
    }
}

fn builtin(table: Table) -> &'static [&'static str] {
    match table {
        Table::Filter => &["INPUT", "FORWARD", "OUTPUT"],
        Table::Nat => &["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
    }
}
