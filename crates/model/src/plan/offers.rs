//! Which endpoints stand behind which service port. Slices with the same ports are one group; endpoints are sorted and
//! chosen from once for each combination of groups, however many ports it serves: a service may have 20,000 ports and
//! 50,000 endpoints.

use std::borrow::Cow;
use std::collections::HashMap;

use super::candidate::Candidate;
use super::limit::MOST_READ;
use super::pools::{Pools, Usable};
use crate::{EndpointSlice, Family, NodeView, Protocol, SlicePort};

/// What the slices of a service offer in one family.
pub(super) struct Offers<'a> {
    /// Every port of every group, sorted.
    ports: Vec<Offer<'a>>,
    groups: Vec<Group>,
    /// What is left of several groups together.
    combined: HashMap<Box<[Part]>, Pools>,
    nothing: Pools,
    /// How many endpoints were read for `combined`.
    read: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Offer<'a> {
    name: &'a str,
    protocol: Protocol,
    /// Index into [`Offers::groups`].
    group: usize,
    port: u16,
}

/// The endpoints of slices with the same ports.
struct Group {
    /// The usable ones, sorted, one per address.
    endpoints: Vec<Candidate>,
    /// What is left of this group alone, once a port asked.
    alone: Option<Pools>,
}

/// A group whose endpoints listen on the port of this rank. Ports themselves decide nothing but which endpoints are the
/// same, and in which order they come.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Part {
    group: usize,
    rank: u16,
}

impl<'a> Offers<'a> {
    pub(super) fn of(slices: &'a [EndpointSlice<'a>], node: &NodeView, family: Family) -> Offers<'a> {
        let mut offers = Offers {
            ports: Vec::new(),
            groups: Vec::with_capacity(slices.len()),
            combined: HashMap::new(),
            nothing: Pools::default(),
            read: 0,
        };
        // The cluster state keeps equal lists of ports once: it is enough to look where they are, which does not take long
        // where 50 slices have 20,000 ports each. Equal lists in two places are two groups.
        let mut slices: Vec<&'a EndpointSlice<'a>> = slices.iter().collect();
        slices.sort_unstable_by_key(|slice| std::ptr::from_ref(slice.ports));
        for group in slices.chunk_by(|one, other| std::ptr::eq(one.ports, other.ports)) {
            let endpoints = group.iter().flat_map(|slice| &slice.endpoints);
            let usable = endpoints.filter_map(|endpoint| Candidate::of(endpoint, node, family).ok());
            offers.add(group.first().map(|slice| slice.ports).unwrap_or_default(), usable.collect());
        }
        offers.ports.sort_unstable();
        offers.ports.dedup();
        offers
    }

    fn add(&mut self, ports: &'a [SlicePort], mut endpoints: Vec<Candidate>) {
        if endpoints.is_empty() {
            return;
        }
        endpoints.sort_unstable();
        endpoints.dedup_by_key(|candidate| candidate.ip);
        let group = self.groups.len();
        // Port 0 can come from a manifest; no endpoint listens there.
        let ports = ports.iter().filter(|at| at.port != 0);
        self.ports.extend(ports.map(|at| Offer {
            name: &at.name,
            protocol: at.protocol,
            group,
            port: at.port,
        }));
        self.groups.push(Group { endpoints, alone: None });
    }

    /// The usable endpoints of one service port; `None` if too much was read already to find them.
    pub(super) fn usable(&mut self, name: &str, protocol: Protocol) -> Option<Usable<'_>> {
        let wanted = (name, protocol);
        let first = self.ports.partition_point(|offer| (offer.name, offer.protocol) < wanted);
        let later = self.ports.get(first..).unwrap_or_default();
        let count = later.iter().take_while(|offer| (offer.name, offer.protocol) == wanted).count();
        match &later[..count] {
            [] => Some(Usable { pools: &self.nothing, ports: Cow::Borrowed(&[]) }),
            [only] => {
                let Group { endpoints, alone } = self.groups.get_mut(only.group)?;
                let pools = alone.get_or_insert_with(|| Pools::of(endpoints.clone()));
                Some(Usable { pools, ports: Cow::Borrowed(std::slice::from_ref(&only.port)) })
            }
            several => {
                let (parts, ports) = ranked(several);
                if !self.combined.contains_key(&parts) {
                    if self.read >= MOST_READ {
                        return None;
                    }
                    let found = merged(&self.groups, &parts);
                    self.read += found.len();
                    self.combined.insert(parts.clone(), Pools::of(found));
                }
                let pools = self.combined.get(&parts)?;
                Some(Usable { pools, ports: Cow::Owned(ports) })
            }
        }
    }
}

/// What tells one combination of groups from another, and the ports by rank.
fn ranked(offers: &[Offer<'_>]) -> (Box<[Part]>, Vec<u16>) {
    let mut ports: Vec<u16> = offers.iter().map(|offer| offer.port).collect();
    ports.sort_unstable();
    ports.dedup();
    let part = |offer: &Offer<'_>| {
        let rank = ports.partition_point(|port| *port < offer.port);
        // No more ranks than ports.
        Part { group: offer.group, rank: u16::try_from(rank).unwrap_or(u16::MAX) }
    };
    (offers.iter().map(part).collect(), ports)
}

/// All endpoints of the groups, sorted, one per address and port.
fn merged(groups: &[Group], parts: &[Part]) -> Vec<Candidate> {
    let mut found = Vec::new();
    for Part { group, rank } in parts {
        let endpoints = groups.get(*group).map(|group| &*group.endpoints).unwrap_or_default();
        found.extend(endpoints.iter().map(|candidate| Candidate { rank: *rank, ..*candidate }));
    }
    // A sorted run from each group: the stable sort merges them.
    found.sort();
    found.dedup_by_key(|candidate| (candidate.ip, candidate.rank));
    found
}
