//! Which services stand in each other's way, pair by pair: what people have to hear about.

use std::collections::{BTreeSet, HashMap};

use super::spot::{Ip, Spot};
use super::{Contest, Pair};
use crate::ServiceKey;

/// For each pair the spots at which it meets, and the pairs that were touched since somebody asked.
#[derive(Debug)]
pub(super) struct Contests<A> {
    spots: HashMap<Pair, BTreeSet<Spot<A>>>,
    touched: BTreeSet<Pair>,
}

impl<A> Default for Contests<A> {
    fn default() -> Contests<A> {
        Contests { spots: HashMap::new(), touched: BTreeSet::new() }
    }
}

impl<A: Ip> Contests<A> {
    /// `queue` is all who want the spot, best first; `name` has just joined it.
    pub(super) fn joined<'q>(
        &mut self,
        spot: Spot<A>,
        name: &ServiceKey,
        mut queue: impl Iterator<Item = &'q ServiceKey>,
    ) {
        let Some(owner) = queue.next() else { return };
        if owner != name {
            return self.enter(owner, name, spot);
        }
        let Some(owned_before) = queue.next() else { return };
        self.enter(name, owned_before, spot);
        for loser in queue {
            self.leave(owned_before, loser, spot);
            self.enter(name, loser, spot);
        }
    }

    /// `queue` is all who still want the spot, best first; `name`, which owned it or not, has just left.
    pub(super) fn left<'q>(
        &mut self,
        spot: Spot<A>,
        name: &ServiceKey,
        had_owned: bool,
        mut queue: impl Iterator<Item = &'q ServiceKey>,
    ) {
        let Some(owner) = queue.next() else { return };
        if !had_owned {
            return self.leave(owner, name, spot);
        }
        self.leave(name, owner, spot);
        for loser in queue {
            self.leave(name, loser, spot);
            self.enter(owner, loser, spot);
        }
    }

    fn enter(&mut self, owner: &ServiceKey, loser: &ServiceKey, spot: Spot<A>) {
        let pair = Pair { owner: owner.clone(), loser: loser.clone() };
        self.spots.entry(pair.clone()).or_default().insert(spot);
        self.touched.insert(pair);
    }

    fn leave(&mut self, owner: &ServiceKey, loser: &ServiceKey, spot: Spot<A>) {
        let pair = Pair { owner: owner.clone(), loser: loser.clone() };
        if let Some(spots) = self.spots.get_mut(&pair) {
            spots.remove(&spot);
            if spots.is_empty() {
                self.spots.remove(&pair);
            }
        }
        self.touched.insert(pair);
    }

    pub(super) fn pairs(&self) -> usize {
        self.spots.len()
    }

    pub(super) fn take_touched(&mut self) -> Vec<(Pair, Option<Contest>)> {
        let touched = std::mem::take(&mut self.touched);
        touched.into_iter().map(|pair| (pair.clone(), self.between(&pair))).collect()
    }

    pub(super) fn between(&self, pair: &Pair) -> Option<Contest> {
        let spots = self.spots.get(pair)?;
        Some(Contest { example: spots.first()?.claim(), addresses: spots.len() })
    }
}
