//! Which service owns an address that several of them claim.
//!
//! The kernel maps hold one entry per address, port and protocol; two services may still name the same
//! external IP and port. A cluster IP beats a load-balancer address, which beats an external IP: who may only write
//! `externalIPs` must not take what the control plane gave to others. Then the older service wins, then the
//! smaller name: nothing depends on the order of arrival.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{Address, Family, Protocol, Role, ServiceKey};
use ledger::Ledger;

mod contests;
mod ledger;
mod queues;
mod rank;
mod spot;
#[cfg(test)]
mod tests;

/// One service's wish to own a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claim {
    pub at: Address,
    pub protocol: Protocol,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.at, self.protocol)
    }
}

/// A service that owns what another one wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair {
    pub owner: ServiceKey,
    pub loser: ServiceKey,
}

/// What the two of a [`Pair`] contest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contest {
    /// The least of the addresses.
    pub example: Claim,
    /// How many there are.
    pub addresses: usize,
}

/// What is new about contested addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContestNews {
    /// Pairs that something changed for, sorted; `None` where they are at peace now.
    pub pairs: Vec<(Pair, Option<Contest>)>,
    /// All pairs there are.
    pub total_pairs: usize,
    /// All addresses that more than one service wants.
    pub addresses: usize,
}

/// All claims of one family, and who holds what.
#[derive(Debug)]
pub struct Claims(Table);

/// Apart by family, so that an IPv4 claim does not pay for the width of an IPv6 address.
#[derive(Debug)]
enum Table {
    V4(Ledger<Ipv4Addr>),
    V6(Ledger<Ipv6Addr>),
}

impl Claims {
    pub fn new(family: Family) -> Claims {
        Claims(match family {
            Family::V4 => Table::V4(Ledger::default()),
            Family::V6 => Table::V6(Ledger::default()),
        })
    }

    /// Replace what a service wants. Returns the other services that gained or lost an address by it, sorted:
    /// their plans must be rendered again. Addresses of the other family are ignored.
    pub fn update(
        &mut self,
        service: &ServiceKey,
        created: i64,
        wanted: impl IntoIterator<Item = (Protocol, Address, Role)>,
    ) -> Vec<ServiceKey> {
        match &mut self.0 {
            Table::V4(ledger) => ledger.update(service, created, wanted),
            Table::V6(ledger) => ledger.update(service, created, wanted),
        }
    }

    /// Forget a service; returns what [`Claims::update`] returns.
    pub fn remove(&mut self, service: &ServiceKey) -> Vec<ServiceKey> {
        self.update(service, 0, [])
    }

    pub fn owns(&self, service: &str, protocol: Protocol, at: Address) -> bool {
        self.owner(Claim { at, protocol }).is_some_and(|owner| **owner == *service)
    }

    pub fn owner(&self, claim: Claim) -> Option<&ServiceKey> {
        match &self.0 {
            Table::V4(ledger) => ledger.owner(claim),
            Table::V6(ledger) => ledger.owner(claim),
        }
    }

    /// The services behind the owner that want the same, the next one first: how many, and at most `most` of them.
    pub fn rivals(&self, claim: Claim, most: usize) -> (usize, Vec<ServiceKey>) {
        match &self.0 {
            Table::V4(ledger) => ledger.rivals(claim, most),
            Table::V6(ledger) => ledger.rivals(claim, most),
        }
    }

    /// Whether more than one service wants the same anywhere.
    pub fn has_contests(&self) -> bool {
        match &self.0 {
            Table::V4(ledger) => ledger.has_contests(),
            Table::V6(ledger) => ledger.has_contests(),
        }
    }

    /// What is owned at an address, and by whom; at most `most` of it.
    pub fn at(&self, ip: IpAddr, most: usize) -> Vec<(Claim, ServiceKey)> {
        match &self.0 {
            Table::V4(ledger) => ledger.at(ip, most),
            Table::V6(ledger) => ledger.at(ip, most),
        }
    }

    /// Whether anything is owned at one of these addresses, from the first to the last.
    pub fn has_between(&self, first: IpAddr, last: IpAddr) -> bool {
        match &self.0 {
            Table::V4(ledger) => ledger.has_between(first, last),
            Table::V6(ledger) => ledger.has_between(first, last),
        }
    }

    /// Every service that wants something, in no particular order.
    pub fn services(&self) -> Vec<ServiceKey> {
        match &self.0 {
            Table::V4(ledger) => ledger.services(),
            Table::V6(ledger) => ledger.services(),
        }
    }

    /// What changed about contests since this was last asked; `None` if nothing did. It costs what changed, whatever
    /// else is contested: where an owner leaves thousands of others behind, the rest of their news comes the next times.
    pub fn news(&mut self) -> Option<ContestNews> {
        match &mut self.0 {
            Table::V4(ledger) => ledger.news(),
            Table::V6(ledger) => ledger.news(),
        }
    }

    /// What two services contest.
    pub fn contest(&self, pair: &Pair) -> Option<Contest> {
        match &self.0 {
            Table::V4(ledger) => ledger.contest(pair),
            Table::V6(ledger) => ledger.contest(pair),
        }
    }
}
