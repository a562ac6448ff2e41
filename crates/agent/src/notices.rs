//! Trouble that people are told about one by one, such as a service that is too large: what was named, and what waits
//! to be.
//!
//! Any tenant can begin and end such trouble as often as they like. So naming keeps to a rate, of which each namespace
//! and each service has a share, and both what is named and what waits are bounded.

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;
use std::time::Instant;

use cluster::SharedAllowance;
use model::ServiceKey;

/// What is named and not over yet. More than this is too much to work through one by one.
pub(crate) const MOST_NAMED: usize = 1000;
/// What waits to be named. There may be more, which is named if it changes.
const MOST_WAITING: usize = 1000;

pub(crate) struct Notices<K, V> {
    allowance: SharedAllowance,
    named: HashSet<K>,
    waiting: BTreeMap<K, V>,
}

impl<K, V> Default for Notices<K, V> {
    fn default() -> Notices<K, V> {
        Notices { allowance: SharedAllowance::default(), named: HashSet::new(), waiting: BTreeMap::new() }
    }
}

impl<K: Clone + Eq + Hash + Ord, V: Copy> Notices<K, V> {
    pub(crate) fn is_named(&self, key: &K) -> bool {
        self.named.contains(key)
    }

    /// How many more may be named.
    pub(crate) fn room(&self) -> usize {
        MOST_NAMED.saturating_sub(self.named.len())
    }

    #[cfg(test)]
    pub(crate) fn named_count(&self) -> usize {
        self.named.len()
    }

    /// Everything that is named or waits.
    pub(crate) fn known(&self) -> impl Iterator<Item = &K> {
        self.named.iter().chain(self.waiting.keys())
    }

    /// Name this now, if the service has any of its share left. What is named waits no longer.
    pub(crate) fn try_name(&mut self, key: &K, service: &ServiceKey, now: Instant) -> bool {
        let may_be_named = self.allowance.take(service, now);
        if may_be_named {
            self.note_named(key.clone());
        }
        may_be_named
    }

    /// Have it wait, unless too much waits already. Whether it did not wait before.
    pub(crate) fn put_off(&mut self, key: &K, value: V) -> bool {
        if let Some(waiting) = self.waiting.get_mut(key) {
            *waiting = value;
            return false;
        }
        if self.waiting.len() < MOST_WAITING {
            self.waiting.insert(key.clone(), value);
        }
        true
    }

    /// Some of what waits, as far as the shares of its services allow; it is named now.
    pub(crate) fn take_due(
        &mut self,
        most: usize,
        now: Instant,
        service: impl Fn(&K) -> &ServiceKey,
    ) -> Vec<(K, V)> {
        let may_be_named = |(key, _): &(&K, &V)| self.allowance.take(service(key), now);
        let due = self.waiting.iter().filter(may_be_named).take(most);
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
        self.named.insert(key);
    }
}
