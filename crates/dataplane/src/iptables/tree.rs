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
mod tests {
    use model::{Address, Protocol};

    use super::*;

    #[derive(PartialEq)]
    struct To(&'static str);

    impl Leaf for To {
        fn write(&self, _: &Key, rule: &mut String) {
            let _ = write!(rule, " -j {}", self.0);
        }
    }

    fn key(number: u32) -> Key {
        let ip = std::net::Ipv4Addr::from_bits(0x0a60_0000 + number);
        Key::of(Address::Vip(ip.into(), 80), Protocol::Tcp)
    }

    fn tree(numbers: impl Iterator<Item = u32>) -> Tree<To> {
        let mut tree = Tree::new("ROOT", "KUBE-SVC-");
        numbers.for_each(|number| tree.insert(key(number), To("X")));
        tree
    }

    /// The rules that a packet to this key meets, up to the one that is its own.
    fn met(chains: &[Chain], wanted: u32) -> usize {
        let ip = std::net::Ipv4Addr::from_bits(0x0a60_0000 + wanted);
        let (mut chain, mut met) = (&chains[0], 0);
        'next: loop {
            for line in chain.text.lines() {
                met += 1;
                let words: Vec<&str> = line.split(' ').collect();
                let net: ipnet::Ipv4Net = words[3].parse().unwrap();
                if net.contains(&ip) {
                    let target = words[words.len() - 1];
                    if target == "X" {
                        return met;
                    }
                    chain = chains.iter().find(|chain| chain.name == target).unwrap();
                    continue 'next;
                }
            }
            panic!("{ip} is nowhere");
        }
    }

    #[test]
    fn few_keys_need_no_tree() {
        let chains = tree(0..16).chains();
        assert_eq!((chains.len(), chains[0].rules), (1, 16));
        assert!(chains[0].text.starts_with("-A ROOT -d 10.96.0.0/32 -p tcp -m tcp --dport 80 -j X\n"));
    }

    #[test]
    fn every_key_is_found_within_few_rules() {
        for count in [17_u32, 300, 10_000] {
            // Spread over a /16 as an apiserver's allocator does, without repeating.
            let numbers: Vec<u32> = (0..count).map(|number| number * 40_503 % 65_536).collect();
            let chains = tree(numbers.iter().copied()).chains();
            let worst = numbers.iter().map(|number| met(&chains, *number)).max().unwrap();
            assert!(worst <= 100, "{worst} rules among {count} keys");
            assert!(chains.len() <= 1 + numbers.len() / 8, "{} chains for {count} keys", chains.len());
        }
    }

    #[test]
    fn a_change_touches_few_chains() {
        let mut tree = tree((0..10_000).map(|number| number * 40_503 % 65_536));
        let all = tree.take();
        assert!(all.gone.is_empty() && all.rules_before == 0);
        assert!(tree.take().chains.is_empty(), "nothing changed");
        tree.remove(&key(40_503));
        tree.insert(key(0x1_0000), To("X"));
        let difference = tree.take();
        let rules: usize = difference.chains.iter().map(|chain| chain.rules).sum();
        assert!(difference.chains.len() <= 4 && rules <= 200, "{difference:?}");
    }

    /// Whatever came and went before, the same keys make the same chains.
    #[test]
    fn what_was_taken_adds_up_to_what_is_there() {
        let mut tree = tree(0..0);
        let mut held: HashMap<String, String> = HashMap::new();
        let mut random = 1_u32;
        for _ in 0..400 {
            for _ in 0..7 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let number = (random >> 8) % 700 * 97;
                match random % 3 {
                    0 => tree.remove(&key(number)),
                    _ => tree.insert(key(number), To("X")),
                }
            }
            let difference = tree.take();
            difference.gone.iter().for_each(|name| drop(held.remove(name)));
            held.extend(difference.chains.into_iter().map(|chain| (chain.name, chain.text)));
            let whole: HashMap<String, String> =
                tree.chains().into_iter().map(|chain| (chain.name, chain.text)).collect();
            assert_eq!(held, whole);
        }
    }

    #[test]
    fn many_ports_of_one_address_make_a_tree_too() {
        let mut tree = Tree::new("ROOT", "KUBE-SVC-");
        for port in 30_000..32_000 {
            tree.insert(Key::of(Address::NodePort(port), Protocol::Tcp), To("X"));
        }
        let chains = tree.chains();
        assert!(chains.iter().all(|chain| chain.rules <= FULL), "{chains:?}");
        assert!(chains.iter().any(|chain| chain.name == "KUBE-SVC-NP-tcp-30208-8"), "{chains:?}");
    }

    #[test]
    fn a_few_chosen_addresses_do_not_flatten_the_tree() {
        let mut tree = Tree::new("ROOT", "KUBE-SVC-");
        let service = |number: u128| (0xfd00_0010_0096_u128 << 80) + number;
        (0..10_000).for_each(|n| {
            tree.insert(
                Key::whole(std::net::Ipv6Addr::from_bits(service(n * 40_503 % 65_536)).into()),
                To("X"),
            )
        });
        for chosen in
            ["1000::1", "f000::1", "fd10::1", "fd01::1", "fd00:1000::1", "fd00:100::1", "fd00:10::1"]
        {
            tree.insert(Key::whole(chosen.parse().unwrap()), To("X"));
        }
        let longest = tree.chains().iter().map(|chain| chain.rules).max().unwrap();
        assert!(longest <= 64, "{longest} rules in a row");
    }

    /// Addresses chosen so that each nibble splits.
    #[test]
    fn nobody_makes_a_tree_deeper_than_the_kernel_follows() {
        let mut tree = Tree::new("ROOT", "KUBE-SVC-");
        let base = 0xfd00_u128 << 112;
        for nibble in 0..32 {
            for other in 1..16_u128 {
                let ip = std::net::Ipv6Addr::from_bits(base ^ other << (4 * nibble));
                tree.insert(Key::whole(ip.into()), To("X"));
            }
        }
        let chains = tree.chains();
        assert!(chains.iter().all(|chain| chain.name.len() <= 28));
        assert!(chains.len() < 200, "{}", chains.len());
        fn depth(chains: &[Chain], name: &str) -> usize {
            let chain = chains.iter().find(|chain| chain.name == name).unwrap();
            let targets = chain.text.lines().filter_map(|line| line.rsplit_once(" -j ").map(|(_, to)| to));
            1 + targets.filter(|to| *to != "X").map(|to| depth(chains, to)).max().unwrap_or(0)
        }
        assert_eq!(depth(&chains, "ROOT"), DEEPEST + 1);
    }
}
