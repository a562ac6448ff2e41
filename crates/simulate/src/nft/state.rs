//! What the simulated kernel holds: tables with chains, rules, sets and their elements. Values only; who may
//! change them, and when, is in `apply` and `elements`.

use std::collections::BTreeMap;
use std::sync::Arc;

use kernel::nft::TableFamily;
use kernel::nft::sys::NFT_SET_INTERVAL;

use super::decode::{DataLayout, Hook, SetLayout};
use super::instruction::{Datum, Instruction};

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    ip: BTreeMap<String, Table>,
    ip6: BTreeMap<String, Table>,
}

impl State {
    pub(super) fn tables(&self, family: TableFamily) -> &BTreeMap<String, Table> {
        match family {
            TableFamily::Ip => &self.ip,
            TableFamily::Ip6 => &self.ip6,
        }
    }

    pub(super) fn tables_mut(&mut self, family: TableFamily) -> &mut BTreeMap<String, Table> {
        match family {
            TableFamily::Ip => &mut self.ip,
            TableFamily::Ip6 => &mut self.ip6,
        }
    }

    pub(super) fn table(&self, family: TableFamily, name: &str) -> Option<&Table> {
        self.tables(family).get(name)
    }

    pub(super) fn set_mut(&mut self, family: TableFamily, table: &str, set: &str) -> Option<&mut Set> {
        self.tables_mut(family).get_mut(table)?.sets.get_mut(set)
    }

    /// Forget what has timed out.
    pub(super) fn expire(&mut self, now: u64) {
        let sets =
            self.ip.values_mut().chain(self.ip6.values_mut()).flat_map(|table| table.sets.values_mut());
        for set in sets {
            set.expire(now);
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) user_data: Box<[u8]>,
    pub(super) chains: BTreeMap<String, Chain>,
    pub(super) sets: BTreeMap<String, Set>,
    /// Packets counted by name. A simulated packet has no length, so that there are no bytes to count.
    pub(super) counters: BTreeMap<String, u64>,
}

impl Table {
    /// Whether a rule of another chain or an element of a verdict map leads to the chain.
    pub(super) fn leads_to(&self, chain: &str) -> bool {
        let by_rule = self
            .chains
            .iter()
            .filter(|(name, _)| *name != chain)
            .flat_map(|(_, chain)| &chain.rules)
            .flat_map(|rule| &rule.instructions)
            .any(|one| matches!(one, Instruction::Verdict(verdict) if verdict.target() == Some(chain)));
        by_rule || self.sets.values().any(|set| set.targets.contains_key(chain))
    }

    /// Whether an element or a rule names the counter.
    pub(super) fn counts_in(&self, counter: &str) -> bool {
        let rules = self.chains.values().flat_map(|chain| &chain.rules);
        let mut by_rule = rules.flat_map(|rule| &rule.instructions);
        self.sets.values().any(|set| set.counters.contains_key(counter))
            || by_rule.any(|one| matches!(one, Instruction::Count(name) if name == counter))
    }

    /// Whether a rule reads or writes the set.
    pub(super) fn uses(&self, set: &str) -> bool {
        self.chains
            .values()
            .flat_map(|chain| &chain.rules)
            .flat_map(|rule| &rule.instructions)
            .any(|one| one.set() == Some(set))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Chain {
    pub(super) hook: Option<Hook>,
    /// Among chains of one priority, the kernel asks the one registered last first.
    pub(super) registered: u64,
    pub(super) rules: Vec<Arc<Rule>>,
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) handle: u64,
    pub(super) instructions: Vec<Instruction>,
}

/// An element's key. Interval sets hold the start and the end of an interval as two elements; an end sorts
/// before a start of the same value, for it belongs to the interval below.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) bytes: Box<[u8]>,
    pub(super) is_start: bool,
}

impl Key {
    pub(super) fn start(bytes: &[u8]) -> Key {
        Key { bytes: bytes.into(), is_start: true }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) data: Option<Datum>,
    pub(super) timeout: Option<u64>,
    pub(super) expires_at: Option<u64>,
    pub(super) user_data: Box<[u8]>,
}

#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) layout: SetLayout,
    /// Most elements; 0 = unlimited.
    pub(super) size: usize,
    pub(super) timeout: Option<u64>,
    elements: BTreeMap<Key, Element>,
    /// How many elements lead to each chain, so that checking the graph of chains need not walk elements.
    targets: BTreeMap<String, usize>,
    /// How many elements name each counter.
    counters: BTreeMap<String, usize>,
}

impl Set {
    pub(super) fn new(layout: SetLayout, size: usize, timeout: Option<u64>) -> Set {
        let (targets, counters) = (BTreeMap::new(), BTreeMap::new());
        Set { layout, size, timeout, elements: BTreeMap::new(), targets, counters }
    }

    pub(super) fn elements(&self) -> &BTreeMap<Key, Element> {
        &self.elements
    }

    /// The chains its elements lead to.
    pub(super) fn targets(&self) -> impl Iterator<Item = &str> {
        self.targets.keys().map(String::as_str)
    }

    pub(super) fn is_verdict_map(&self) -> bool {
        self.layout.data == Some(DataLayout::Verdict)
    }

    /// Put, or with `None` take away, an element; gives what was there.
    pub(super) fn put(&mut self, key: Key, element: Option<Element>) -> Option<Element> {
        if let Some((names, name)) = element.as_ref().and_then(|element| self.named(element)) {
            *names.entry(name).or_default() += 1;
        }
        let previous = match element {
            Some(element) => self.elements.insert(key, element),
            None => self.elements.remove(&key),
        };
        if let Some((names, name)) = previous.as_ref().and_then(|element| self.named(element)) {
            forget(names, &name);
        }
        previous
    }

    /// The chain or counter that an element names, and where these are tallied.
    fn named(&mut self, element: &Element) -> Option<(&mut BTreeMap<String, usize>, String)> {
        match element.data.as_ref()? {
            Datum::Verdict(verdict) => Some((&mut self.targets, verdict.target()?.to_owned())),
            Datum::Counter(name) => Some((&mut self.counters, name.clone())),
            Datum::Value(_) => None,
        }
    }

    /// What a packet finds.
    pub(super) fn find(&self, key: &[u8]) -> Option<&Element> {
        let key = Key::start(key);
        if !self.layout.has(NFT_SET_INTERVAL) {
            return self.elements.get(&key);
        }
        let (nearest, element) = self.elements.range(..=key).next_back()?;
        nearest.is_start.then_some(element)
    }

    fn expire(&mut self, now: u64) {
        let gone = |element: &Element| element.expires_at.is_some_and(|at| at <= now);
        let keys: Vec<Key> =
            self.elements.iter().filter(|(_, element)| gone(element)).map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.put(key, None);
        }
    }
}

fn forget(names: &mut BTreeMap<String, usize>, name: &str) {
    if let Some(count) = names.get_mut(name) {
        *count -= 1;
        if *count == 0 {
            names.remove(name);
        }
    }
}
