//! Simulated tables of iptables: [`Simulator`] takes the scripts that `iptables-restore --noflush --counters` would and
//! refuses what it would refuse, and [`walk`] sends packets through the rules. No privilege, no programs.
//!
//! It stands in for the tools in tests of the dataplane. Modelled is what this project writes, and what upstream's
//! kube-proxy does; where the two variants of the tools disagree, or where they put up with what is surely a mistake,
//! it is as strict as the stricter.

mod commands;
mod graph;
mod matching;
mod parse;
mod parse_match;
mod parse_target;
mod print;
mod recent;
mod restore;
mod rule;
mod state;
#[cfg(test)]
mod tests;
mod walk;
mod words;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use kernel::iptables::{Stamp, Table, Tables, ToolError};

use recent::Lists;
use restore::Stop;
use state::TableState;

pub use state::Counters;

/// Why the next restore is to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Another program holds the lock: nothing is even read.
    Locked,
    /// At this line, from 1; sections that end before it are carried out.
    AtLine(usize),
    /// As the kernel takes over this table.
    AtCommit(Table),
}

/// One address family's tables in one network namespace.
#[derive(Clone, Debug)]
pub struct Simulator {
    is_ipv6: bool,
    /// The tables contain rules of nft.
    pub unreadable: bool,
    random_fully: bool,
    missing: Option<&'static str>,
    tables: [TableState; 2],
    lists: Lists,
    /// How many packets each accounting object has counted.
    accounts: BTreeMap<String, u64>,
    now: u64,
    commits: u64,
    fault: Option<Fault>,
    restores: usize,
    restored_bytes: usize,
    last_script: String,
}

impl Default for Simulator {
    fn default() -> Simulator {
        Simulator::new(false)
    }
}

impl Simulator {
    pub fn new(is_ipv6: bool) -> Simulator {
        Simulator {
            is_ipv6,
            unreadable: false,
            random_fully: true,
            missing: None,
            tables: Table::BOTH.map(TableState::new),
            lists: Lists::default(),
            accounts: BTreeMap::new(),
            now: 0,
            commits: 0,
            fault: None,
            restores: 0,
            restored_bytes: 0,
            last_script: String::new(),
        }
    }

    /// As tools do that are too old for `MASQUERADE --random-fully`.
    pub fn without_random_fully(self) -> Simulator {
        Simulator { random_fully: false, ..self }
    }

    /// As kernels do that were built without this match.
    pub fn without_match(self, name: &'static str) -> Simulator {
        Simulator { missing: Some(name), ..self }
    }

    /// What another program does: one command as `iptables -t TABLE` takes it, such as `-F`.
    pub fn run(&mut self, table: Table, command: &str) -> Result<(), ToolError> {
        let script = format!("*{}\n{command}\nCOMMIT\n", table.name());
        restore::run(self, &script, None)
            .map_err(|stop| ToolError::refused(&self.tool("tables"), stop.said, None, &script))
    }

    /// Let the next restore fail.
    pub fn fail_next(&mut self, fault: Fault) {
        self.fault = Some(fault);
    }

    /// How many scripts were taken or refused so far.
    pub fn restores(&self) -> usize {
        self.restores
    }

    /// The length of all of them.
    pub fn restored_bytes(&self) -> usize {
        self.restored_bytes
    }

    pub fn last_script(&self) -> &str {
        &self.last_script
    }

    /// The names of all chains, those that are always there first.
    pub fn chains(&self, table: Table) -> Vec<&str> {
        self.table(table).names().collect()
    }

    /// The rules of a chain, as they stand behind `-A CHAIN`; `None` if there is no such chain.
    pub fn rules(&self, table: Table, chain: &str) -> Option<Vec<String>> {
        let entries = &self.table(table).chain(chain)?.entries;
        Some(entries.iter().map(|entry| entry.rule.to_string().trim_start().to_owned()).collect())
    }

    /// What each rule of a chain has counted; `None` if there is no such chain.
    pub fn counters(&self, table: Table, chain: &str) -> Option<Vec<Counters>> {
        let entries = &self.table(table).chain(chain)?.entries;
        Some(entries.iter().map(|entry| entry.counters).collect())
    }

    /// The addresses on a list of `-m recent`, those seen last at the end.
    pub fn seen(&self, list: &str) -> Vec<IpAddr> {
        self.lists.addresses(list)
    }

    /// Make an accounting object, as `nfacct add` does.
    pub fn add_account(&mut self, name: &str) {
        self.accounts.entry(name.to_owned()).or_default();
    }

    /// How many packets an accounting object has counted; `None` if there is no such object.
    pub fn accounted(&self, name: &str) -> Option<u64> {
        self.accounts.get(name).copied()
    }

    /// Move the clock, in milliseconds of any origin.
    pub fn set_now(&mut self, milliseconds: u64) {
        self.now = milliseconds;
    }

    fn table(&self, table: Table) -> &TableState {
        let [filter, nat] = &self.tables;
        match table {
            Table::Filter => filter,
            Table::Nat => nat,
        }
    }

    fn table_mut(&mut self, table: Table) -> &mut TableState {
        let [filter, nat] = &mut self.tables;
        match table {
            Table::Filter => filter,
            Table::Nat => nat,
        }
    }

    fn commit(&mut self, state: TableState) {
        let table = state.table;
        *self.table_mut(table) = state;
        self.lists.keep(self.tables.iter().flat_map(TableState::rules));
        self.commits += 1;
    }

    fn tool(&self, what: &str) -> PathBuf {
        PathBuf::from(format!("simulated ip{}{what}", if self.is_ipv6 { "6" } else { "" }))
    }
}

impl Tables for Simulator {
    fn save(&mut self, table: Table) -> Result<String, ToolError> {
        match self.unreadable {
            true => Err(ToolError::Unreadable { tool: self.tool("tables-save"), table: table.name() }),
            false => Ok(self.table(table).save()),
        }
    }

    fn outline(&mut self, table: Table, rules: &[(&str, &str)]) -> Result<String, ToolError> {
        // The rules that are printed as they are asked for are enough.
        let saved = self.table(table).save();
        let is_told = |line: &&str| match line.strip_prefix("-A ") {
            Some(rule) => rules.iter().any(|(chain, words)| rule == format!("{chain}{words}")),
            None => true,
        };
        Ok(saved.lines().filter(is_told).map(|line| format!("{line}\n")).collect())
    }

    fn restore(&mut self, script: &str) -> Result<(), ToolError> {
        self.restores += 1;
        self.restored_bytes += script.len();
        script.clone_into(&mut self.last_script);
        let refused = |simulator: &Simulator, said, line| {
            Err(ToolError::refused(&simulator.tool("tables-restore"), said, line, script))
        };
        let is_missing = |line: &str| self.missing.is_some_and(|name| line.contains(&format!(" -m {name} ")));
        if let Some(at) = script.lines().position(is_missing) {
            return refused(self, "missing kernel module".to_owned(), Some(at + 1));
        }
        match self.fault.take() {
            Some(Fault::Locked) => {
                let (tool, file) = (self.tool("tables-restore"), "/run/xtables.lock".into());
                Err(ToolError::Locked { tool, file, seconds: 5 })
            }
            fault => match restore::run(self, script, fault) {
                Ok(()) => Ok(()),
                Err(Stop { line, said }) => refused(self, format!("line {line}: {said}"), Some(line)),
            },
        }
    }

    fn stamp(&mut self) -> Option<Stamp> {
        Some(Stamp([self.commits, 0, 0, 0]))
    }

    fn has_random_fully(&self) -> bool {
        self.random_fully
    }
}
