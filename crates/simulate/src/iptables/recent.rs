//! The lists of `-m recent`: which addresses were seen, and when last.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use super::rule::{Match, Recent, RecentAction, Rule};

/// `ip_list_tot` of the kernel's module: one more, and the address that was not seen for longest is forgotten.
const LENGTH: usize = 100;

/// Lists by name. A list lives as long as a rule names it.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    lists: BTreeMap<String, Vec<Seen>>,
}

/// In a list, those seen last stand last.
#[derive(Clone, Copy, Debug)]
struct Seen {
    address: IpAddr,
    /// In milliseconds.
    at: u64,
}

impl Lists {
    /// Drop those that no rule names any more.
    pub(super) fn keep<'r>(&mut self, rules: impl Iterator<Item = &'r Rule>) {
        if self.lists.is_empty() {
            return;
        }
        let matches = rules.flat_map(|rule| &rule.matches);
        let named: HashSet<&str> = matches
            .filter_map(|one| match one {
                Match::Recent(recent) => Some(recent.list.as_str()),
                _ => None,
            })
            .collect();
        self.lists.retain(|name, _| named.contains(name.as_str()));
    }

    pub(super) fn addresses(&self, list: &str) -> Vec<IpAddr> {
        self.lists.get(list).into_iter().flatten().map(|seen| seen.address).collect()
    }

    /// Ask a list of an address, and let it remember.
    pub(super) fn matches(&mut self, recent: &Recent, address: IpAddr, now: u64) -> bool {
        let list = match self.lists.get_mut(&recent.list) {
            Some(list) => list,
            None => self.lists.entry(recent.list.clone()).or_default(),
        };
        let place = list.iter().position(|seen| seen.address == address);
        let Some(place) = place else {
            if recent.action != RecentAction::Set {
                return recent.negated;
            }
            if list.len() >= LENGTH {
                list.remove(0);
            }
            list.push(Seen { address, at: now });
            return !recent.negated;
        };
        match recent.action {
            RecentAction::Set => {
                touch(list, place, now);
                !recent.negated
            }
            RecentAction::Remove => {
                list.remove(place);
                !recent.negated
            }
            RecentAction::Check | RecentAction::Update => check(list, place, recent, now),
        }
    }
}

fn check(list: &mut Vec<Seen>, place: usize, recent: &Recent, now: u64) -> bool {
    let oldest = recent.seconds.map_or(0, |seconds| now.saturating_sub(u64::from(seconds) * 1000));
    let fresh = list.get(place).is_some_and(|seen| seen.at >= oldest);
    let matched = fresh != recent.negated;
    let updates = recent.action == RecentAction::Update && matched;
    if updates {
        touch(list, place, now);
    }
    // Only the one that was not seen for longest is looked at each time.
    if recent.reap && list.first().is_some_and(|seen| seen.at < oldest) {
        list.remove(0);
    }
    matched
}

fn touch(list: &mut Vec<Seen>, place: usize, now: u64) {
    let mut seen = list.remove(place);
    seen.at = now;
    list.push(seen);
}
