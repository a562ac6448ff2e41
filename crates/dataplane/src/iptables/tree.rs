//! Rules found by address and port through a tree of chains, so that a packet meets few of them and a change
//! rewrites few.
//!
//! The tree is a function of its keys alone: a chain that would hold more than [`FULL`] rules splits at the first
//! nibble in which its keys differ. What changed is found by comparing chains with what was last taken.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::key::Key;
use super::names::fitting;

/// So many rules a packet may meet in a row.
const FULL: usize = 16;
/// A branch this small is not worth a chain.
const INLINE: usize = 3;
/// nf_tables follows 16 jumps, and chains of services come after these. A tree that is still full here holds long
/// chains; only a tenant who chooses addresses for it can make one.
const DEEPEST: usize = 6;

/// A rule, less its chain and what it asks of the destination.
pub(super) trait Leaf: PartialEq {
    fn write(&self, key: &Key, rule: &mut String);
}

pub(super) struct Tree<L> {
    /// The chain that leads into the tree.
    root: &'static str,
    /// How the names of its other chains begin.
    prefix: &'static str,
    leaves: BTreeMap<Key, L>,
    /// Rules of the root that follow the tree, as `-A` takes them.
    tail: Vec<String>,
    is_changed: bool,
    taken: HashMap<String, Taken>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Taken {
    hash: u64,
    rules: usize,
}

/// A chain with its rules, a line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) rules: usize,
}

impl Chain {
    pub(super) fn new(name: impl Into<String>) -> Chain {
        Chain { name: name.into(), text: String::new(), rules: 0 }
    }

    /// Append a rule: what follows the name of the chain.
    pub(super) fn rule(&mut self, words: fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        self.rule_by(|text| text.write_fmt(words).unwrap_or_default());
    }

    fn rule_by(&mut self, write: impl FnOnce(&mut String)) {
        self.text.push_str("-A ");
        self.text.push_str(&self.name);
        write(&mut self.text);
        self.text.push('\n');
        self.rules += 1;
    }

    fn leaves<L: Leaf>(&mut self, leaves: &[(&Key, &L)]) {
        for (key, leaf) in leaves {
            self.rule_by(|text| {
                key.write_match(text);
                leaf.write(key, text);
            });
        }
    }

    fn taken(&self) -> Taken {
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        Taken { hash: hasher.finish(), rules: self.rules }
    }
}

/// What is to be written for a tree.
#[derive(Debug, Default)]
pub(super) struct Difference {
    pub(super) chains: Vec<Chain>,
    pub(super) gone: Vec<String>,
    /// Rules of the chains that were there before.
    pub(super) rules_before: usize,
}

impl<L: Leaf> Tree<L> {
    pub(super) fn new(root: &'static str, prefix: &'static str) -> Tree<L> {
        let (leaves, tail, taken) = (BTreeMap::new(), Vec::new(), HashMap::new());
        Tree { root, prefix, leaves, tail, is_changed: true, taken }
    }

    pub(super) fn insert(&mut self, key: Key, leaf: L) {
        let is_new = self.leaves.get(&key) != Some(&leaf);
        if is_new {
            self.leaves.insert(key, leaf);
        }
        self.is_changed |= is_new;
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.is_changed |= self.leaves.remove(key).is_some();
    }

    pub(super) fn set_tail(&mut self, tail: Vec<String>) {
        self.is_changed |= self.tail != tail;
        self.tail = tail;
    }

    pub(super) fn get(&self, key: &Key) -> Option<&L> {
        self.leaves.get(key)
    }

    /// All chains, the root among them.
    pub(super) fn chains(&self) -> Vec<Chain> {
        let leaves: Vec<(&Key, &L)> = self.leaves.iter().collect();
        let mut chains = vec![Chain::new(self.root)];
        self.fill(0, 0, &leaves, &mut chains);
        for rule in &self.tail {
            chains[0].rule(format_args!("{rule}"));
        }
        chains
    }

    /// Write the rules of sorted leaves into the chain at `place`, at a depth of the tree.
    fn fill(&self, place: usize, depth: usize, leaves: &[(&Key, &L)], chains: &mut Vec<Chain>) {
        let branches = match leaves {
            [(first, _), .., (last, _)] if leaves.len() > FULL && depth < DEEPEST => first.common(last) + 1,
            _ => 0,
        };
        let same_branch = |a: &(&Key, &L), b: &(&Key, &L)| branches > 0 && a.0.common(b.0) >= branches;
        for branch in leaves.chunk_by(same_branch) {
            let others = leaves.len() - branch.len();
            let (key, last) = match branch {
                // Few addresses off the beaten track cost no level: they may have been chosen for that.
                [_, .., _] if others <= INLINE && branch.len() > FULL => {
                    self.fill(place, depth, branch, chains);
                    continue;
                }
                [(first, _), .., (last, _)] if branch.len() > INLINE => (first, last),
                _ => {
                    chains[place].leaves(branch);
                    continue;
                }
            };
            // All that they have in common: traffic that is none of theirs stays out.
            let prefix = key.prefix(key.common(last));
            let name = fitting(self.prefix, &prefix.to_string());
            chains[place].rule_by(|text| {
                prefix.write_match(text);
                let _ = write!(text, " -j {name}");
            });
            chains.push(Chain::new(name));
            let place = chains.len() - 1;
            self.fill(place, depth + 1, branch, chains);
        }
    }

    /// What differs from what was taken the last time.
    pub(super) fn take(&mut self) -> Difference {
        let mut difference = Difference::default();
        if !std::mem::take(&mut self.is_changed) {
            return difference;
        }
        let mut before = std::mem::take(&mut self.taken);
        for chain in self.chains() {
            let now = chain.taken();
            let old = before.remove(&chain.name);
            self.taken.insert(chain.name.clone(), now);
            if old != Some(now) {
                difference.rules_before += old.map_or(0, |old| old.rules);
                difference.chains.push(chain);
            }
        }
        difference.rules_before += before.values().map(|taken| taken.rules).sum::<usize>();
        difference.gone = before.into_keys().collect();
        difference
    }
}

#[cfg(test)]
#[path = "../../tests/unit/iptables_tree.rs"]
mod tests;
