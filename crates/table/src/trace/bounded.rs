//! A map that forgets the oldest where there is no room.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

#[derive(Debug)]
pub(super) struct Bounded<K, V> {
    room: usize,
    held: HashMap<K, V>,
    /// In the order in which they came; those that were taken out since are among them.
    order: VecDeque<K>,
}

impl<K: Copy + Eq + Hash, V> Bounded<K, V> {
    pub(super) fn new(room: usize) -> Bounded<K, V> {
        Bounded { room, held: HashMap::new(), order: VecDeque::new() }
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.held.get_mut(key)
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.held.contains_key(key)
    }

    /// Put it in; returns what was forgotten for it.
    pub(super) fn insert(&mut self, key: K, value: V) -> Option<(K, V)> {
        if self.held.insert(key, value).is_some() {
            return None;
        }
        self.order.push_back(key);
        if self.held.len() > self.room {
            return self.take_oldest_if(|_| true);
        }
        // What was taken out leaves its place behind; that must not grow without end.
        if self.order.len() > 2 * self.room {
            let held = &self.held;
            self.order.retain(|key| held.contains_key(key));
        }
        None
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        self.held.remove(key)
    }

    /// Take the oldest out, if it is as asked for.
    pub(super) fn take_oldest_if(&mut self, is_wanted: impl Fn(&V) -> bool) -> Option<(K, V)> {
        loop {
            let key = *self.order.front()?;
            match self.held.get(&key) {
                Some(value) if !is_wanted(value) => return None,
                _ => {}
            }
            self.order.pop_front();
            if let Some(value) = self.held.remove(&key) {
                return Some((key, value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_and_nothing_grows() {
        let mut map = Bounded::new(2);
        assert_eq!(map.insert(1, 'a'), None);
        assert_eq!(map.insert(2, 'b'), None);
        assert_eq!(map.insert(1, 'c'), None, "it was there");
        assert_eq!(map.insert(3, 'd'), Some((1, 'c')));
        assert_eq!(map.remove(&2), Some('b'));
        assert_eq!(map.take_oldest_if(|value| *value == 'x'), None);
        assert_eq!(map.take_oldest_if(|value| *value == 'd'), Some((3, 'd')));
        for number in 0..1000 {
            map.insert(number, 'e');
            map.remove(&number);
        }
        assert!(map.order.len() <= 4 && map.held.is_empty());
    }
}
