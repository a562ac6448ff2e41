//! Trouble that people are told about one by one, such as a service that is too large: what was named, and what waits
//! to be.
//!
//! Any tenant can begin and end such trouble as often as they like. So naming keeps to a rate, of which each namespace
//! and each service has a share, and both what is named and what waits are bounded: where there is no room left, something
//! of the namespace that has most of it is forgotten.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use cluster::SharedAllowance;
use model::{Pair, ServiceKey};

/// What is named and not over yet. More than this is too much to work through one by one.
pub(crate) const MOST_NAMED: usize = 1000;
/// What waits to be named. There may be more, which is named if it changes.
const MOST_WAITING: usize = 1000;

pub(crate) struct Notices<K, V> {
    allowance: SharedAllowance,
    named: Bounded<K, ()>,
    waiting: Bounded<K, V>,
}

/// What a notice is about.
pub(crate) trait About: Clone + Ord {
    /// Whose share is used up by it.
    fn service(&self) -> &ServiceKey;
}

impl About for ServiceKey {
    fn service(&self) -> &ServiceKey {
        self
    }
}

impl About for (ServiceKey, &'static str) {
    fn service(&self) -> &ServiceKey {
        &self.0
    }
}

impl About for Pair {
    fn service(&self) -> &ServiceKey {
        &self.loser
    }
}

impl<K, V> Default for Notices<K, V> {
    fn default() -> Notices<K, V> {
        Notices {
            allowance: SharedAllowance::default(),
            named: Bounded::new(MOST_NAMED),
            waiting: Bounded::new(MOST_WAITING),
        }
    }
}

impl<K: About, V: Copy> Notices<K, V> {
    pub(crate) fn is_named(&self, key: &K) -> bool {
        self.named.entries.contains_key(key)
    }

    #[cfg(test)]
    pub(crate) fn named_count(&self) -> usize {
        self.named.entries.len()
    }

    /// Everything that is named or waits.
    pub(crate) fn known(&self) -> impl Iterator<Item = &K> {
        self.named.entries.keys().chain(self.waiting.entries.keys())
    }

    /// Name this now, if its service and namespace have any of their shares left. What is named waits no longer.
    pub(crate) fn try_name(&mut self, key: &K, now: Instant) -> bool {
        let has_room = self.named.has_room_for(key, self.named.size_of_largest());
        let may_be_named = has_room && self.allowance.take(key.service(), now);
        if may_be_named {
            self.note_named(key.clone());
        }
        may_be_named
    }

    /// Have it wait, unless too much of its namespace waits already. Whether it did not wait before.
    pub(crate) fn put_off(&mut self, key: &K, value: V) -> bool {
        let is_new = !self.waiting.entries.contains_key(key);
        self.waiting.insert(key.clone(), value);
        is_new
    }

    /// Some of what waits, as far as the shares of its services allow; it is named now.
    pub(crate) fn take_due(&mut self, most: usize, now: Instant) -> Vec<(K, V)> {
        let Notices { allowance, named, waiting } = &mut *self;
        let largest = named.size_of_largest();
        let may_be_named =
            |(key, _): &(&K, &V)| named.has_room_for(key, largest) && allowance.take(key.service(), now);
        let due = waiting.entries.iter().filter(may_be_named).take(most);
        let due: Vec<(K, V)> = due.map(|(key, value)| (key.clone(), *value)).collect();
        due.iter().for_each(|(key, _)| self.note_named(key.clone()));
        due
    }

    /// It is over. Whether it was named, so that people want to know.
    pub(crate) fn end(&mut self, key: &K) -> bool {
        self.waiting.remove(key);
        self.named.remove(key)
    }

    fn note_named(&mut self, key: K) {
        self.waiting.remove(&key);
        self.named.insert(key, ());
    }
}

/// So many at most, counted by namespace.
struct Bounded<K, V> {
    entries: BTreeMap<K, V>,
    sizes: HashMap<Box<str>, usize>,
    most: usize,
}

impl<K, V> Bounded<K, V> {
    fn new(most: usize) -> Bounded<K, V> {
        Bounded { entries: BTreeMap::new(), sizes: HashMap::new(), most }
    }

    fn is_full(&self) -> bool {
        self.entries.len() >= self.most
    }

    /// Which namespace has most, and how much; `None` while there is room for everybody.
    fn largest(&self) -> Option<(&str, usize)> {
        let largest = || self.sizes.iter().max_by_key(|(_, size)| **size);
        self.is_full().then(largest).flatten().map(|(namespace, size)| (&**namespace, *size))
    }

    fn size_of_largest(&self) -> Option<usize> {
        self.largest().map(|(_, size)| size)
    }
}

impl<K: About, V> Bounded<K, V> {
    /// Whether its namespace has less than the largest.
    fn has_room_for(&self, key: &K, largest: Option<usize>) -> bool {
        let own = self.sizes.get(namespace_of(key)).copied().unwrap_or_default();
        largest.is_none_or(|size| own + 1 < size)
    }

    fn insert(&mut self, key: K, value: V) {
        if let Some(known) = self.entries.get_mut(&key) {
            *known = value;
            return;
        }
        if let Some((largest, size)) = self.largest() {
            if !self.has_room_for(&key, Some(size)) {
                return;
            }
            let victim = self.entries.keys().find(|key| namespace_of(*key) == largest).cloned();
            victim.iter().for_each(|victim| {
                self.remove(victim);
            });
        }
        *self.sizes.entry(namespace_of(&key).into()).or_default() += 1;
        self.entries.insert(key, value);
    }

    fn remove(&mut self, key: &K) -> bool {
        let was_there = self.entries.remove(key).is_some();
        if was_there && let Some(size) = self.sizes.get_mut(namespace_of(key)) {
            *size -= 1;
            if *size == 0 {
                self.sizes.remove(namespace_of(key));
            }
        }
        was_there
    }
}

fn namespace_of(key: &impl About) -> &str {
    key.service().split_once('/').map_or("", |(namespace, _)| namespace)
}
