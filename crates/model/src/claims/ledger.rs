//! The books behind [`Claims`](crate::Claims): who wants what, who holds it, and the few places where they differ.
//!
//! Sized for tens of thousands of services. An uncontested claim is one B-tree entry (12 bytes for IPv4) and one
//! item of its service's list (10 bytes); only contested ones carry their claimants by name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use super::queues::Queues;
use super::rank::{Rank, Title};
use super::spot::{Ip, Spot};
use super::{Claim, Contest, ContestNews, Pair};
use crate::{Address, Protocol, Role, ServiceKey};

/// What a service wants, and how good its claim is.
type Wish<A> = (Spot<A>, Title);

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
    contested: Queues<A>,
}

impl<A> Default for Ledger<A> {
    fn default() -> Ledger<A> {
        Ledger {
            seat_of: HashMap::new(),
            claimants: Vec::new(),
            free: Vec::new(),
            held: BTreeMap::new(),
            contested: Queues::default(),
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
        let changed = changed_spots(known.and_then(|seat| self.claimant(seat)), created, &wishes);
        if changed.is_empty() {
            return Vec::new();
        }
        let seat = known.unwrap_or_else(|| self.seat(service));
        let before: Vec<Option<u32>> = changed.iter().map(|spot| self.held.get(spot).copied()).collect();

        changed.iter().for_each(|spot| self.withdraw(seat, *spot));
        match wishes.is_empty() {
            true => self.vacate(seat, service),
            false => self.take_on(seat, Claimant { name: service.clone(), created, wishes }),
        }
        changed.iter().for_each(|spot| self.enter(seat, *spot));
        self.others_moved(seat, &changed, &before)
    }

    pub(super) fn owner(&self, claim: Claim) -> Option<&ServiceKey> {
        let seat = self.held.get(&Spot::of(claim)?)?;
        Some(&self.claimant(*seat)?.name)
    }

    pub(super) fn rivals(&self, claim: Claim, most: usize) -> (usize, Vec<ServiceKey>) {
        let queue = Spot::of(claim).map(|spot| self.contested.behind_owner(&spot, most));
        queue.unwrap_or_default()
    }

    pub(super) fn at(&self, ip: IpAddr, most: usize) -> Vec<(Claim, ServiceKey)> {
        let Some((first, last)) = Spot::all_at(ip) else { return Vec::new() };
        let found = self.held.range(first..=last).take(most);
        found.filter_map(|(spot, seat)| Some((spot.claim(), self.claimant(*seat)?.name.clone()))).collect()
    }

    pub(super) fn has_between(&self, first: IpAddr, last: IpAddr) -> bool {
        let (Some((first, _)), Some((_, last))) = (Spot::all_at(first), Spot::all_at(last)) else {
            return false;
        };
        first <= last && self.held.range(first..=last).next().is_some()
    }

    pub(super) fn services(&self) -> Vec<ServiceKey> {
        self.seat_of.keys().cloned().collect()
    }

    pub(super) fn has_contests(&self) -> bool {
        self.contested.len() > 0
    }

    pub(super) fn news(&mut self) -> Option<ContestNews> {
        self.contested.settle();
        let pairs = self.contested.contests.take_touched();
        let (total_pairs, addresses) = (self.contested.contests.pairs(), self.contested.len());
        (!pairs.is_empty()).then_some(ContestNews { pairs, total_pairs, addresses })
    }

    pub(super) fn contest(&self, pair: &Pair) -> Option<Contest> {
        self.contested.contests.between(pair)
    }

    fn claimant(&self, seat: u32) -> Option<&Claimant<A>> {
        self.claimants.get(seat as usize)?.as_ref()
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

    fn take_on(&mut self, seat: u32, claimant: Claimant<A>) {
        if let Some(place) = self.claimants.get_mut(seat as usize) {
            *place = Some(claimant);
        }
    }

    /// A service no longer wants a spot, if it did.
    fn withdraw(&mut self, seat: u32, spot: Spot<A>) {
        let Some(rank) = self.rank(seat, &spot) else { return };
        match self.contested.leave(spot, &rank) {
            Some(owner) => self.held.insert(spot, owner),
            None => self.held.remove(&spot),
        };
    }

    /// A service wants a spot, if it does.
    fn enter(&mut self, seat: u32, spot: Spot<A>) {
        let Some(rank) = self.rank(seat, &spot) else { return };
        let incumbent = self.held.get(&spot).and_then(|incumbent| self.rank(*incumbent, &spot));
        let owner = match incumbent {
            Some(incumbent) => self.contested.join(spot, incumbent, rank),
            None => seat,
        };
        self.held.insert(spot, owner);
    }

    /// Who, other than `seat`, gained or lost one of these spots. Those who wait there are counted against the new owner later.
    fn others_moved(&mut self, seat: u32, spots: &[Spot<A>], before: &[Option<u32>]) -> Vec<ServiceKey> {
        let mut moved = BTreeSet::new();
        for (spot, was) in spots.iter().zip(before) {
            let is = self.held.get(spot).copied();
            if *was != is {
                self.contested.owner_changed(*spot);
                moved.extend([*was, is].into_iter().flatten().filter(|other| *other != seat));
            }
        }
        let mut names: Vec<ServiceKey> =
            moved.into_iter().filter_map(|other| Some(self.claimant(other)?.name.clone())).collect();
        names.sort_unstable();
        names
    }
}

/// Where a service wants something else than before, or by another title; sorted. With its age every claim changes.
fn changed_spots<A: Ip>(had: Option<&Claimant<A>>, created: i64, wishes: &[Wish<A>]) -> Vec<Spot<A>> {
    let old = had.map_or(&[][..], |had| &had.wishes);
    let is_same_age = had.is_some_and(|had| had.created == created);
    let missing_in = |others: &[Wish<A>], wish: &Wish<A>| !is_same_age || others.binary_search(wish).is_err();
    let gone = old.iter().filter(|wish| missing_in(wishes, wish));
    let new = wishes.iter().filter(|wish| missing_in(old, wish));
    let mut spots: Vec<Spot<A>> = gone.chain(new).map(|(spot, _)| *spot).collect();
    spots.sort_unstable();
    spots.dedup();
    spots
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

    use super::super::queues::MOST_VISITS;
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

    fn external(last: std::ops::Range<u8>) -> impl Iterator<Item = (Protocol, Address, Role)> {
        let at = |last| Address::Vip(Ipv4Addr::new(198, 51, 100, last).into(), 80);
        last.map(move |last| (Protocol::Tcp, at(last), Role::ExternalIp))
    }

    /// What changes of the owner cost while so many others want the same 50 addresses, and what the news after each do.
    fn steps_beside(others: u32) -> [(usize, usize); 5] {
        let mut ledger = Ledger::<Ipv4Addr>::default();
        let owner = ServiceKey::from("d/owner");
        ledger.update(&owner, 1, external(0..50));
        for other in 0..others {
            ledger.update(&ServiceKey::from(format!("d/{other}")), 2, external(0..50));
        }
        while ledger.news().is_some() {}
        let node_port = (Protocol::Tcp, Address::NodePort(1), Role::NodePort);
        let changes: [(i64, Vec<_>); 5] = [
            (1, external(0..50).chain([node_port]).collect()),
            (1, external(1..50).collect()),
            (1, external(0..50).collect()),
            (0, external(0..50).collect()),
            (1, vec![]),
        ];
        changes.map(|(created, wanted)| {
            ledger.contested.contests.steps = 0;
            ledger.update(&owner, created, wanted);
            let steps = std::mem::take(&mut ledger.contested.contests.steps);
            ledger.news();
            (steps, ledger.contested.contests.steps)
        })
    }

    #[test]
    fn a_change_costs_the_same_however_many_others_want_the_addresses() {
        let (few, many) = (steps_beside(3), steps_beside(300));
        let steps = |costs: [(usize, usize); 5]| costs.map(|(steps, _)| steps);
        assert_eq!(steps(few), steps(many));
        assert_eq!(steps(many), [0, 1, 1, 100, 50], "elsewhere, one address, all of them");
        let most = 2 * MOST_VISITS;
        assert!(many.iter().all(|(_, by_news)| *by_news <= most), "{many:?}");
    }
}
