//! The spots that more than one service wants: who comes first, and against which owner each of the others is counted.
//!
//! A service that joins or leaves touches its own place and that of the owner, however many others wait. If the owner
//! changes, those behind it are counted against the new one later, some at each [`settle`](Queues::settle): a thousand
//! services may wait at each of a thousand spots, and the sync thread must not walk all of them for one change.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use super::contests::Contests;
use super::rank::Rank;
use super::spot::{Ip, Spot};

/// Places that are looked at in one go: a millisecond or two.
pub(super) const MOST_VISITS: usize = 1000;

/// All who want a spot, best first, each with the owner it is counted against. The first one has none.
type Queue = BTreeMap<Rank, Option<crate::ServiceKey>>;

#[derive(Debug)]
pub(super) struct Queues<A> {
    queues: BTreeMap<Spot<A>, Queue>,
    pub(super) contests: Contests<A>,
    /// Spots where some may be counted against a former owner.
    outdated: BTreeSet<Spot<A>>,
    /// The last of them that was looked at, so that each has its turn; and the last place, if there are more behind it.
    at: Option<(Spot<A>, Option<Rank>)>,
}

impl<A> Default for Queues<A> {
    fn default() -> Queues<A> {
        Queues { queues: BTreeMap::new(), contests: Contests::default(), outdated: BTreeSet::new(), at: None }
    }
}

impl<A: Ip> Queues<A> {
    /// How many spots are contested.
    pub(super) fn len(&self) -> usize {
        self.queues.len()
    }

    /// Another service wants what `incumbent` owns. Returns the seat of the owner.
    pub(super) fn join(&mut self, spot: Spot<A>, incumbent: Rank, rank: Rank) -> u32 {
        let queue = self.queues.entry(spot).or_default();
        if queue.is_empty() {
            queue.insert(incumbent.clone(), None);
        }
        let (owner, loser) = if rank < incumbent { (&rank, &incumbent) } else { (&incumbent, &rank) };
        self.contests.enter(&owner.name, &loser.name, spot);
        let seat = owner.seat;
        queue.insert(loser.clone(), Some(owner.name.clone()));
        if rank < incumbent {
            queue.insert(rank, None);
        }
        seat
    }

    /// A service no longer wants a spot. Returns the seat of the owner, or `None` if no other wants it.
    pub(super) fn leave(&mut self, spot: Spot<A>, rank: &Rank) -> Option<u32> {
        let queue = self.queues.get_mut(&spot)?;
        if let Some(owner) = queue.remove(rank).flatten() {
            self.contests.leave(&owner, &rank.name, spot);
        }
        let (first, counted_against) = queue.iter_mut().next()?;
        if let Some(owner) = counted_against.take() {
            self.contests.leave(&owner, &first.name, spot);
        }
        let seat = first.seat;
        if queue.len() < 2 {
            self.queues.remove(&spot);
            self.outdated.remove(&spot);
        }
        Some(seat)
    }

    /// How many want a spot and do not own it, and the first of them.
    pub(super) fn behind_owner(&self, spot: &Spot<A>, most: usize) -> (usize, Vec<crate::ServiceKey>) {
        let Some(queue) = self.queues.get(spot) else { return (0, Vec::new()) };
        let names = queue.keys().skip(1).take(most).map(|rank| rank.name.clone());
        (queue.len().saturating_sub(1), names.collect())
    }

    /// The owner of a spot is another one than before.
    pub(super) fn owner_changed(&mut self, spot: Spot<A>) {
        let Some(queue) = self.queues.get(&spot) else { return };
        let mut places = queue.iter();
        let (Some((owner, _)), Some((_, second))) = (places.next(), places.next()) else { return };
        if places.next().is_some() || second.as_ref() != Some(&owner.name) {
            self.outdated.insert(spot);
        }
    }

    /// Count some of those that are left behind against the present owner.
    pub(super) fn settle(&mut self) {
        let mut left = MOST_VISITS;
        while left > 0 {
            let Some((spot, last)) = self.next() else { return };
            let last = self.settle_at(spot, last, &mut left);
            self.at = Some((spot, last));
        }
    }

    /// Where to go on.
    fn next(&mut self) -> Option<(Spot<A>, Option<Rank>)> {
        let behind = match self.at.take() {
            Some((spot, Some(last))) => return Some((spot, Some(last))),
            Some((spot, None)) => self.outdated.range((Excluded(spot), Unbounded)).next().copied(),
            None => None,
        };
        let spot = behind.or_else(|| self.outdated.first().copied())?;
        self.outdated.remove(&spot);
        Some((spot, None))
    }

    /// Those behind `last`. Returns where it stopped, if that is not the end.
    fn settle_at(&mut self, spot: Spot<A>, last: Option<Rank>, left: &mut usize) -> Option<Rank> {
        let queue = self.queues.get_mut(&spot)?;
        let owner = queue.keys().next()?.name.clone();
        for (rank, counted_against) in queue.range_mut((last.map_or(Unbounded, Excluded), Unbounded)) {
            *left -= 1;
            if rank.name != owner && counted_against.as_ref() != Some(&owner) {
                if let Some(former) = counted_against.replace(owner.clone()) {
                    self.contests.leave(&former, &rank.name, spot);
                }
                self.contests.enter(&owner, &rank.name, spot);
            }
            if *left == 0 {
                return Some(rank.clone());
            }
        }
        None
    }
}
