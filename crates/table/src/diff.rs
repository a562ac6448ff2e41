//! What must go and what must come to turn one service's elements into others.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::element::Element;
use crate::sets::SetName;

/// Elements to delete and to add, over any number of services.
#[derive(Debug, Default)]
pub struct Difference {
    pub removed: Vec<Element>,
    pub added: Vec<Element>,
}

impl Difference {
    /// Compare the sorted elements of one service, before and after.
    pub fn of(&mut self, before: Vec<Element>, after: Vec<Element>) {
        let (mut before, mut after) = (before.into_iter().peekable(), after.into_iter().peekable());
        loop {
            let order = match (before.peek(), after.peek()) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => old.place().cmp(&new.place()),
            };
            match order {
                Ordering::Less => self.removed.extend(before.next()),
                Ordering::Greater => self.added.extend(after.next()),
                Ordering::Equal => {
                    let (old, new) = (before.next(), after.next());
                    if old != new {
                        self.removed.extend(old);
                        self.added.extend(new);
                    }
                }
            }
        }
    }

    /// Keep of the shared elements only those whose first owner came or whose last owner went, and nothing twice.
    pub fn settle(&mut self, owners: &mut SharedOwners) {
        let mut held: HashMap<SharedKey, bool> = HashMap::new();
        for element in &self.added {
            let Some(key) = SharedKey::of(element) else { continue };
            held.entry(key).or_insert_with(|| owners.holds(&key));
            owners.add(key);
        }
        for element in &self.removed {
            let Some(key) = SharedKey::of(element) else { continue };
            held.entry(key).or_insert_with(|| owners.holds(&key));
            owners.remove(&key);
        }
        let settle = |elements: &mut Vec<Element>, comes: bool| {
            elements.retain(|element| {
                let Some(key) = SharedKey::of(element) else { return true };
                owners.holds(&key) == comes && held.get(&key) != Some(&comes)
            });
        };
        settle(&mut self.added, true);
        settle(&mut self.removed, false);
        self.removed.sort_unstable_by(Element::order);
        self.removed.dedup_by(|a, b| a.place() == b.place());
        self.added.sort_unstable_by(Element::order);
        self.added.dedup_by(|a, b| a.place() == b.place());
        self.cancel();
    }

    /// An endpoint that moved from slot to slot is still a member: what goes and comes again stays.
    fn cancel(&mut self) {
        let mut kept = Vec::new();
        let mut added = self.added.iter().peekable();
        self.removed.retain(|old| {
            while added.next_if(|new| new.place() < old.place()).is_some() {}
            let is_kept = added.peek() == Some(&old);
            if is_kept {
                kept.push(old.clone());
            }
            !is_kept
        });
        if !kept.is_empty() {
            let mut kept = kept.iter().peekable();
            self.added.retain(|new| kept.next_if(|old| *old == new).is_none());
        }
    }
}

/// An element that several services may hold; it goes with the last of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedKey {
    hairpin: bool,
    /// The address, and for hairpin elements protocol and port.
    bytes: [u8; 24],
}

impl SharedKey {
    pub fn of(element: &Element) -> Option<SharedKey> {
        let key = element.key.as_slice();
        let (hairpin, content) = match element.set {
            SetName::ClusterIps => (false, key),
            // The address stands there twice; behind the first are address, protocol and port.
            SetName::Hairpin => (true, &key[(key.len() - 8) / 2..]),
            _ => return None,
        };
        let mut bytes = [0; 24];
        bytes[..content.len()].copy_from_slice(content);
        Some(SharedKey { hairpin, bytes })
    }
}

/// How many services hold each shared element.
#[derive(Debug, Default)]
pub struct SharedOwners {
    counts: HashMap<SharedKey, u32>,
}

impl SharedOwners {
    /// Count one more owner; whether it is the first.
    pub fn add(&mut self, key: SharedKey) -> bool {
        let count = self.counts.entry(key).or_default();
        *count += 1;
        *count == 1
    }

    fn remove(&mut self, key: &SharedKey) {
        if let Some(count) = self.counts.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(key);
            }
        }
    }

    fn holds(&self, key: &SharedKey) -> bool {
        self.counts.contains_key(key)
    }
}
