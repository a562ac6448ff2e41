//! Which services stand in each other's way, pair by pair: what people have to hear about.

use std::collections::{BTreeSet, HashMap};

use super::spot::{Ip, Spot};
use super::{Contest, Pair};
use crate::ServiceKey;

/// For each pair the spots at which it meets, and the pairs that were touched since the last report.
#[derive(Debug)]
pub(super) struct Contests<A> {
    spots: HashMap<Pair, BTreeSet<Spot<A>>>,
    touched: BTreeSet<Pair>,
    /// How often a pair was touched: the cost of all this.
    #[cfg(test)]
    pub(super) steps: usize,
}

impl<A> Default for Contests<A> {
    fn default() -> Contests<A> {
        Contests {
            spots: HashMap::new(),
            touched: BTreeSet::new(),
            #[cfg(test)]
            steps: 0,
        }
    }
}

impl<A: Ip> Contests<A> {
    pub(super) fn enter(&mut self, owner: &ServiceKey, loser: &ServiceKey, spot: Spot<A>) {
        let pair = Pair { owner: owner.clone(), loser: loser.clone() };
        self.spots.entry(pair.clone()).or_default().insert(spot);
        self.touch(pair);
    }

    pub(super) fn leave(&mut self, owner: &ServiceKey, loser: &ServiceKey, spot: Spot<A>) {
        let pair = Pair { owner: owner.clone(), loser: loser.clone() };
        if let Some(spots) = self.spots.get_mut(&pair) {
            spots.remove(&spot);
            if spots.is_empty() {
                self.spots.remove(&pair);
            }
        }
        self.touch(pair);
    }

    fn touch(&mut self, pair: Pair) {
        self.touched.insert(pair);
        #[cfg(test)]
        {
            self.steps += 1;
        }
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
