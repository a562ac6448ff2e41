//! Changing the state so that it can be taken back: every change notes what was there before.

use std::sync::Arc;

use kernel::nft::TableFamily;

use super::Errno;
use super::state::{Chain, Element, Key, Rule, Set, State, Table};

/// A table by family and name.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    pub(super) family: TableFamily,
    pub(super) table: &'a str,
}

enum Undo {
    Table(TableFamily, String, Option<Table>),
    Chain(TableFamily, String, String, Option<Chain>),
    Rules(TableFamily, String, String, Vec<Arc<Rule>>),
    RuleAdded(TableFamily, String, String, usize),
    Set(TableFamily, String, String, Option<Set>),
    Counter(TableFamily, String, String, Option<u64>),
    Elements(TableFamily, String, String, Vec<(Key, Option<Element>)>),
}

pub(super) struct Transaction<'s> {
    state: &'s mut State,
    undo: Vec<Undo>,
    /// Sets declared again, with what that says of size and timeout.
    resized: Vec<(TableFamily, String, String, usize, Option<u64>)>,
    touched: bool,
    /// The last handle given out; the simulator keeps it beyond the transaction.
    pub(super) handles: u64,
    /// Tables whose chains may lead somewhere new, and have to be checked before the commit.
    suspects: Vec<(TableFamily, String)>,
}

impl<'s> Transaction<'s> {
    pub(super) fn new(state: &'s mut State, handles: u64) -> Transaction<'s> {
        Transaction {
            state,
            undo: Vec::new(),
            resized: Vec::new(),
            touched: false,
            handles,
            suspects: Vec::new(),
        }
    }

    pub(super) fn changed_anything(&self) -> bool {
        self.touched || !self.undo.is_empty()
    }

    /// Note a request that the kernel counts as a change even if it changes nothing.
    pub(super) fn touch(&mut self) {
        self.touched = true;
    }

    /// A set declared again takes on the size and timeout named, but not before the commit.
    pub(super) fn resize_later(&mut self, at: At<'_>, set: &str, size: usize, timeout: Option<u64>) {
        self.touch();
        self.resized.push((at.family, at.table.to_owned(), set.to_owned(), size, timeout));
    }

    pub(super) fn state(&self) -> &State {
        self.state
    }

    pub(super) fn table(&self, at: At<'_>) -> Result<&Table, Errno> {
        self.state.table(at.family, at.table).ok_or(libc::ENOENT)
    }

    pub(super) fn chain(&self, at: At<'_>, name: &str) -> Result<&Chain, Errno> {
        self.table(at)?.chains.get(name).ok_or(libc::ENOENT)
    }

    pub(super) fn set(&self, at: At<'_>, name: &str) -> Result<&Set, Errno> {
        self.table(at)?.sets.get(name).ok_or(libc::ENOENT)
    }

    pub(super) fn next_handle(&mut self) -> u64 {
        self.handles += 1;
        self.handles
    }

    pub(super) fn suspect(&mut self, at: At<'_>) {
        if !self.suspects.iter().any(|(family, table)| *family == at.family && table == at.table) {
            self.suspects.push((at.family, at.table.to_owned()));
        }
    }

    pub(super) fn suspects(&self) -> impl Iterator<Item = &Table> {
        self.suspects.iter().filter_map(|(family, table)| self.state.table(*family, table))
    }

    pub(super) fn put_table(&mut self, at: At<'_>, table: Option<Table>) {
        let previous = put(self.state.tables_mut(at.family), at.table, table);
        self.undo.push(Undo::Table(at.family, at.table.to_owned(), previous));
    }

    pub(super) fn put_chain(&mut self, at: At<'_>, name: &str, chain: Option<Chain>) {
        if let Some(table) = self.state.tables_mut(at.family).get_mut(at.table) {
            let previous = put(&mut table.chains, name, chain);
            self.undo.push(Undo::Chain(at.family, at.table.to_owned(), name.to_owned(), previous));
        }
    }

    pub(super) fn put_set(&mut self, at: At<'_>, name: &str, set: Option<Set>) {
        if let Some(table) = self.state.tables_mut(at.family).get_mut(at.table) {
            let previous = put(&mut table.sets, name, set);
            self.undo.push(Undo::Set(at.family, at.table.to_owned(), name.to_owned(), previous));
        }
    }

    /// Put, or with `None` take away, a counter.
    pub(super) fn put_counter(&mut self, at: At<'_>, name: &str, packets: Option<u64>) {
        if let Some(table) = self.state.tables_mut(at.family).get_mut(at.table) {
            let previous = put(&mut table.counters, name, packets);
            self.undo.push(Undo::Counter(at.family, at.table.to_owned(), name.to_owned(), previous));
        }
    }

    pub(super) fn add_rule(&mut self, at: At<'_>, chain: &str, index: usize, rule: Rule) {
        if let Some(rules) = rules(self.state, at.family, at.table, chain) {
            rules.insert(index.min(rules.len()), Arc::new(rule));
            self.undo.push(Undo::RuleAdded(at.family, at.table.to_owned(), chain.to_owned(), index));
        }
    }

    pub(super) fn put_rules(&mut self, at: At<'_>, chain: &str, wanted: Vec<Arc<Rule>>) {
        if let Some(rules) = rules(self.state, at.family, at.table, chain) {
            let previous = std::mem::replace(rules, wanted);
            self.undo.push(Undo::Rules(at.family, at.table.to_owned(), chain.to_owned(), previous));
        }
    }

    /// Put, or with `None` take away, an element.
    pub(super) fn put_element(&mut self, at: At<'_>, set: &str, key: Key, element: Option<Element>) {
        let Some(holder) = self.state.set_mut(at.family, at.table, set) else { return };
        let previous = holder.put(key.clone(), element);
        // A message holds up to a thousand elements: they share one note.
        match self.undo.last_mut() {
            Some(Undo::Elements(family, table, name, elements))
                if *family == at.family && table == at.table && name == set =>
            {
                elements.push((key, previous));
            }
            _ => {
                let elements = vec![(key, previous)];
                self.undo.push(Undo::Elements(at.family, at.table.to_owned(), set.to_owned(), elements));
            }
        }
    }

    pub(super) fn commit(self) {
        for (family, table, set, size, timeout) in self.resized {
            if let Some(set) = self.state.set_mut(family, &table, &set) {
                set.size = if size == 0 { set.size } else { size };
                set.timeout = timeout.or(set.timeout);
            }
        }
    }

    pub(super) fn roll_back(self) {
        for undo in self.undo.into_iter().rev() {
            undo.apply(self.state);
        }
    }
}

impl Undo {
    fn apply(self, state: &mut State) {
        match self {
            Undo::Table(family, name, table) => {
                put(state.tables_mut(family), &name, table);
            }
            Undo::Chain(family, table, name, chain) => {
                if let Some(table) = state.tables_mut(family).get_mut(&table) {
                    put(&mut table.chains, &name, chain);
                }
            }
            Undo::Set(family, table, name, set) => {
                if let Some(table) = state.tables_mut(family).get_mut(&table) {
                    put(&mut table.sets, &name, set);
                }
            }
            Undo::Counter(family, table, name, packets) => {
                if let Some(table) = state.tables_mut(family).get_mut(&table) {
                    put(&mut table.counters, &name, packets);
                }
            }
            Undo::Rules(family, table, chain, previous) => {
                if let Some(rules) = rules(state, family, &table, &chain) {
                    *rules = previous;
                }
            }
            Undo::RuleAdded(family, table, chain, index) => {
                if let Some(rules) = rules(state, family, &table, &chain)
                    && index < rules.len()
                {
                    rules.remove(index);
                }
            }
            Undo::Elements(family, table, set, elements) => {
                let Some(set) = state.set_mut(family, &table, &set) else { return };
                for (key, element) in elements.into_iter().rev() {
                    set.put(key, element);
                }
            }
        }
    }
}

fn rules<'a>(
    state: &'a mut State,
    family: TableFamily,
    table: &str,
    chain: &str,
) -> Option<&'a mut Vec<Arc<Rule>>> {
    Some(&mut state.tables_mut(family).get_mut(table)?.chains.get_mut(chain)?.rules)
}

fn put<T>(map: &mut std::collections::BTreeMap<String, T>, name: &str, value: Option<T>) -> Option<T> {
    match value {
        Some(value) => map.insert(name.to_owned(), value),
        None => map.remove(name),
    }
}
