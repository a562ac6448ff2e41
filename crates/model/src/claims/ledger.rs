//! The books behind [`Claims`](crate::Claims): who wants what, who holds it, and the few places where they differ.
//!
//! Sized for tens of thousands of services. An uncontested claim is one B-tree entry (12 bytes for IPv4) and one
//! item of its service's list (10 bytes); only contested ones carry their claimants by name.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::contests::Contests;
use super::spot::{Ip, Spot};
use super::{Claim, Contest, ContestNews, Pair};
use crate::{Address, Protocol, Role, ServiceKey};

/// What a service wants, and how good its claim is.
type Wish<A> = (Spot<A>, Title);

/// By what a service claims an address, the better claim first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Title {
    ClusterIp,
    LoadBalancerIp,
    /// External IPs, and node ports among themselves.
    Other,
}

impl Title {
    fn of(role: Role) -> Title {
        match role {
            Role::ClusterIp => Title::ClusterIp,
            Role::LoadBalancerIp => Title::LoadBalancerIp,
            Role::ExternalIp | Role::NodePort => Title::Other,
        }
    }
}

/// A place in the queue for a contested spot; the least one owns it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    title: Title,
    created: i64,
    name: ServiceKey,
    seat: u32,
}

#[derive(Debug)]
struct Claimant<A> {
    name: ServiceKey,
    created: i64,
    /// Sorted, no spot twice.
    wishes: Box<[Wish<A>]>,
}

#[derive(Debug)]
pub(super) struct Ledger<A> {
    seat_of: HashMap<ServiceKey, u32>,
    claimants: Vec<Option<Claimant<A>>>,
    free: Vec<u32>,
    /// The owner's seat.
    held: BTreeMap<Spot<A>, u32>,
    contested: BTreeMap<Spot<A>, BTreeSet<Rank>>,
    contests: Contests<A>,
}

impl<A> Default for Ledger<A> {
    fn default() -> Ledger<A> {
        Ledger {
            seat_of: HashMap::new(),
            claimants: Vec::new(),
            free: Vec::new(),
            held: BTreeMap::new(),
            contested: BTreeMap::new(),
            contests: Contests::default(),
        }
    }
}

impl<A: Ip> Ledger<A> {
    pub(super) fn update(
        &mut self,
        service: &ServiceKey,
        created: i64,
        wanted: impl IntoIterator<Item = (Protocol, Address, Role)>,
    ) -> Vec<ServiceKey> {
        let wishes = wishes(wanted);
        let known = self.seat_of.get(service).copied();
        let had = known.and_then(|seat| self.claimant(seat));
        let same = had.map_or(wishes.is_empty(), |had| had.created == created && had.wishes == wishes);
        if same {
            return Vec::new();
        }
        let seat = known.unwrap_or_else(|| self.seat(service));
        let mut touched: Vec<Spot<A>> = self.spots(seat);
        touched.extend(wishes.iter().map(|(spot, _)| *spot));
        touched.sort_unstable();
        touched.dedup();
        let before: Vec<Option<u32>> = touched.iter().map(|spot| self.held.get(spot).copied()).collect();

        self.withdraw(seat);
        match wishes.is_empty() {
            true => self.vacate(seat, service),
            false => self.enter(seat, Claimant { name: service.clone(), created, wishes }),
        }
        self.others_moved(seat, &touched, &before)
    }

    pub(super) fn owner(&self, claim: Claim) -> Option<&ServiceKey> {
        let seat = self.held.get(&Spot::of(claim)?)?;
        Some(&self.claimant(*seat)?.name)
    }

    pub(super) fn services(&self) -> Vec<ServiceKey> {
        self.seat_of.keys().cloned().collect()
    }

    pub(super) fn news(&mut self) -> Option<ContestNews> {
        let pairs = self.contests.take_touched();
        let (total_pairs, addresses) = (self.contests.pairs(), self.contested.len());
        (!pairs.is_empty()).then_some(ContestNews { pairs, total_pairs, addresses })
    }

    pub(super) fn contest(&self, pair: &Pair) -> Option<Contest> {
        self.contests.between(pair)
    }

    fn claimant(&self, seat: u32) -> Option<&Claimant<A>> {
        self.claimants.get(seat as usize)?.as_ref()
    }

    fn spots(&self, seat: u32) -> Vec<Spot<A>> {
        let wishes = self.claimant(seat).into_iter().flat_map(|claimant| claimant.wishes.iter());
        wishes.map(|(spot, _)| *spot).collect()
    }

    fn rank(&self, seat: u32, spot: &Spot<A>) -> Option<Rank> {
        let Claimant { name, created, wishes } = self.claimant(seat)?;
        let at = wishes.binary_search_by(|(wished, _)| wished.cmp(spot)).ok()?;
        let (_, title) = *wishes.get(at)?;
        Some(Rank { title, created: *created, name: name.clone(), seat })
    }

    /// A seat for a new service.
    fn seat(&mut self, service: &ServiceKey) -> u32 {
        let seat = self.free.pop().unwrap_or_else(|| {
            self.claimants.push(None);
            // One seat a service: the number of services is far from the width.
            (self.claimants.len() - 1) as u32
        });
        self.seat_of.insert(service.clone(), seat);
        seat
    }

    fn vacate(&mut self, seat: u32, service: &ServiceKey) {
        self.seat_of.remove(service);
        if let Some(place) = self.claimants.get_mut(seat as usize) {
            *place = None;
            self.free.push(seat);
        }
    }

    /// Take a service out of every queue it stands in.
    fn withdraw(&mut self, seat: u32) {
        for spot in self.spots(seat) {
            let rank = self.rank(seat, &spot);
            let Some(queue) = self.contested.get_mut(&spot) else {
                self.held.remove(&spot);
                continue;
            };
            if let Some(rank) = rank {
                let had_owned = queue.first() == Some(&rank);
                queue.remove(&rank);
                self.contests.left(spot, &rank.name, had_owned, queue.iter().map(|rank| &rank.name));
            }
            if let Some(first) = queue.first() {
                self.held.insert(spot, first.seat);
            }
            if queue.len() < 2 {
                self.contested.remove(&spot);
            }
        }
    }

    /// Put a service into the queue of every spot it wants.
    fn enter(&mut self, seat: u32, claimant: Claimant<A>) {
        if let Some(place) = self.claimants.get_mut(seat as usize) {
            *place = Some(claimant);
        }
        for spot in self.spots(seat) {
            let Some(incumbent) = self.held.get(&spot).copied() else {
                self.held.insert(spot, seat);
                continue;
            };
            let ranks = (self.rank(incumbent, &spot), self.rank(seat, &spot));
            let queue = self.contested.entry(spot).or_default();
            queue.extend(ranks.0);
            if let Some(rank) = ranks.1 {
                queue.insert(rank.clone());
                self.contests.joined(spot, &rank.name, queue.iter().map(|rank| &rank.name));
            }
            if let Some(first) = queue.first() {
                self.held.insert(spot, first.seat);
            }
        }
    }

    /// Who, other than `seat`, gained or lost one of the touched spots.
    fn others_moved(&self, seat: u32, touched: &[Spot<A>], before: &[Option<u32>]) -> Vec<ServiceKey> {
        let mut moved = BTreeSet::new();
        for (spot, was) in touched.iter().zip(before) {
            let is = self.held.get(spot).copied();
            if *was != is {
                moved.extend([*was, is].into_iter().flatten().filter(|other| *other != seat));
            }
        }
        let mut names: Vec<ServiceKey> =
            moved.into_iter().filter_map(|other| Some(self.claimant(other)?.name.clone())).collect();
        names.sort_unstable();
        names
    }
}

fn wishes<A: Ip>(wanted: impl IntoIterator<Item = (Protocol, Address, Role)>) -> Box<[Wish<A>]> {
    let wish = |(protocol, at, role)| Some((Spot::of(Claim { at, protocol })?, Title::of(role)));
    let mut wishes: Vec<Wish<A>> = wanted.into_iter().filter_map(wish).collect();
    wishes.sort_unstable();
    wishes.dedup_by_key(|(spot, _)| *spot);
    wishes.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn seats_of_removed_services_are_used_again() {
        let mut ledger = Ledger::<Ipv4Addr>::default();
        let wanted = |port| [(Protocol::Tcp, Address::NodePort(port), Role::NodePort)];
        for round in 0..10 {
            ledger.update(&ServiceKey::from(format!("d/{round}")), 0, wanted(1));
            ledger.update(&ServiceKey::from("d/stays"), 0, wanted(2));
            ledger.update(&ServiceKey::from(format!("d/{round}")), 0, []);
        }
        assert_eq!((ledger.claimants.len(), ledger.seat_of.len(), ledger.held.len()), (2, 1, 1));
    }
}
