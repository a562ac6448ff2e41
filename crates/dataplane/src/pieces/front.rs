//! The addresses of a port, changed some at a time. Each has source ranges and perhaps a copy of the endpoints, so that a few
//! hundred of them can be a large change.

use std::collections::{HashMap, HashSet};

use model::{Address, Destination, Pool, PortPlan};

/// What all addresses of a port cost.
pub(super) fn weight(port: &PortPlan) -> usize {
    let scale = Scale::of(port);
    port.destinations.iter().map(|at| scale.weigh(at)).sum()
}

/// What it costs to change the addresses of a port.
pub(super) fn cost(before: &PortPlan, after: &PortPlan) -> usize {
    if before.destinations == after.destinations {
        return 0;
    }
    let differing = |one: &PortPlan, other: &PortPlan| -> usize {
        let there = by_address(&other.destinations);
        let differs = |at: &&Destination| there.get(&at.at) != Some(at);
        let scale = Scale::of(one);
        one.destinations.iter().filter(differs).map(|at| scale.weigh(at)).sum()
    };
    differing(before, after) + differing(after, before)
}

/// The port with some of its addresses as they are wanted, and the others as they were. New ones come first to last, and
/// those that go do so last to first: what a port is known by is its first address.
pub(super) fn partly(before: &PortPlan, after: &PortPlan, mut left: usize) -> Option<PortPlan> {
    let (old, new) = (by_address(&before.destinations), by_address(&after.destinations));
    let mut done: HashSet<Address> = HashSet::new();
    let come = after.destinations.iter().filter(|at| old.get(&at.at) != Some(at));
    let go = before.destinations.iter().rev().filter(|at| !new.contains_key(&at.at));
    let (coming, going) = (Scale::of(after), Scale::of(before));
    let replaced = |at: &Destination| old.get(&at.at).map_or(0, |at| going.weigh(at));
    let come = come.map(|at| (coming.weigh(at) + replaced(at), at));
    for (weight, at) in come.chain(go.map(|at| (going.weigh(at), at))) {
        if weight > left && !done.is_empty() {
            break;
        }
        left = left.saturating_sub(weight);
        done.insert(at.at);
    }
    let as_wanted =
        after.destinations.iter().filter(|at| done.contains(&at.at) || old.get(&at.at) == Some(at));
    let as_before =
        before.destinations.iter().filter(|at| !done.contains(&at.at) && new.get(&at.at) != Some(at));
    let mut mixed: Vec<Destination> = as_wanted.chain(as_before).cloned().collect();
    mixed.sort_by_key(|at| (at.role, at.at));
    Some(with_pools(before, after, mixed)).filter(|part| part != before && part != after)
}

/// Whether addresses of the one and of the other can stand beside each other.
pub(super) fn has_same_pools(before: &PortPlan, after: &PortPlan) -> bool {
    let is_same = |pool: Pool| {
        let (old, new) = (before.pool(pool), after.pool(pool));
        old == new || old.is_empty() || new.is_empty()
    };
    before.affinity_seconds == after.affinity_seconds && Pool::BOTH.into_iter().all(is_same)
}

/// The addresses as they were, with the endpoints that are wanted.
pub(super) fn carried(before: &PortPlan, after: &PortPlan) -> PortPlan {
    with_pools(before, after, before.destinations.to_vec())
}

/// With the endpoints that are wanted; addresses that lead to a pool which has none any more keep those that were there.
fn with_pools(before: &PortPlan, after: &PortPlan, destinations: Vec<Destination>) -> PortPlan {
    let pool = |pool| match after.pool(pool) {
        [] => before.pool(pool).into(),
        wanted => wanted.into(),
    };
    let port = PortPlan { cluster_pool: pool(Pool::Cluster), local_pool: pool(Pool::Local), ..after.clone() };
    port.with_destinations(destinations)
}

/// What addresses of one port weigh.
struct Scale<'a> {
    port: &'a PortPlan,
    is_copied: bool,
}

impl Scale<'_> {
    fn of(port: &PortPlan) -> Scale<'_> {
        Scale { port, is_copied: !port.shares_pools() }
    }

    fn weigh(&self, at: &Destination) -> usize {
        let leads = |pool: &Pool| self.is_copied && at.routing.forwards_to(*pool);
        let endpoints: usize =
            Pool::BOTH.iter().filter(|pool| leads(pool)).map(|pool| self.port.pool(*pool).len()).sum();
        3 + at.allowed_sources.as_ref().map_or(0, |allowed| allowed.nets.len() + 1) + 2 * endpoints
    }
}

fn by_address(destinations: &[Destination]) -> HashMap<Address, &Destination> {
    destinations.iter().map(|at| (at.at, at)).collect()
}
