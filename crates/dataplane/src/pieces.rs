//! A large change of one service, carried out piece by piece: plans on the way from one to another, each of which differs
//! little from the one before and serves every client as the old or the new plan does. There are two exceptions: where
//! hundreds of addresses move from one port of a service to another, they are given up first and not served in between;
//! and while the affinity of a large pool changes, only its first endpoints are used: flows of UDP to the others are
//! deleted meanwhile, and their pins dropped. Between two pieces others get their turn.

mod front;

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use model::{Address, PlannedEndpoint, Pool, PortPlan, Ports, Protocol, ServicePlan, merged_ports, ports_of};

/// Services that weigh more are changed apart from the others, in pieces.
pub(crate) const LARGE: usize = 2_000;
/// About how many objects of the kernel one piece touches: some 10 ms.
const PIECE: usize = 4_000;

/// Destinations that may change from one port of a service to another within one piece.
const MOST_MOVED: usize = 500;

/// About how many objects of the kernel they may cost together.
const MOST_TOGETHER: usize = 24_000;

/// Pools that are larger are shortened before the affinity of their port changes: that writes all that is left at once.
pub(crate) const MOST_TURNED: usize = 2_000;

/// The next plan on the way.
pub(crate) struct Piece {
    pub(crate) plan: Option<ServicePlan>,
    pub(crate) is_last: bool,
}

/// A step from what is in force towards what is wanted. `together` are destinations that other services gain or lose with
/// the same transaction: ports that have one of them do not wait. `most_turned` is the mode's.
pub(crate) fn next(
    old: Option<&ServicePlan>,
    wanted: Option<&ServicePlan>,
    together: &HashSet<(Protocol, Address)>,
    most_turned: usize,
) -> Piece {
    let moved = moved(old, wanted);
    // So many that they would be too much for one piece: they are given up first, and taken up by their new ports then.
    if moved.len() > MOST_MOVED || cost_of(&moved, old, wanted) > MOST_TOGETHER {
        let mut without = wanted.cloned().unwrap_or_default();
        without.retain(|protocol, at| !moved.contains(&(protocol, at)));
        let Piece { plan, .. } = next(old, Some(&without), together, most_turned);
        return Piece { plan, is_last: false };
    }
    let together = &together.union(&moved).copied().collect::<HashSet<_>>();
    let mut left = PIECE;
    let mut is_last = true;
    let mut mixed: Vec<Arc<PortPlan>> = Vec::new();
    let mut pairs = merged_ports(ports_of(old), ports_of(wanted));
    for (before, after) in pairs.by_ref() {
        let is_same = before == after;
        let [old, new] = [before, after].map(plain);
        let cost = if is_same { 0 } else { cost(old, new) };
        let goes_along = || [old, new].into_iter().flatten().any(|port| has_any(port, together));
        if cost <= left || cost > 0 && !together.is_empty() && goes_along() {
            left = left.saturating_sub(cost);
            mixed.extend(after.cloned());
            continue;
        }
        is_last = false;
        let part = if left > 0 { part(old, new, left, most_turned) } else { None };
        match part {
            Some(part) => {
                left = 0;
                mixed.push(Arc::new(part));
            }
            // What is too much for a piece and cannot be parted has one for itself.
            None if left == PIECE => {
                left = 0;
                mixed.extend(after.cloned());
            }
            None => {
                left = 0;
                mixed.extend(before.cloned());
            }
        }
        if together.is_empty() {
            break;
        }
    }
    // Nothing more fits.
    mixed.extend(pairs.filter_map(|(before, _)| before.cloned()));
    if is_last {
        return Piece { plan: wanted.cloned(), is_last };
    }
    // What belongs to the service itself goes with the last piece, and comes with the first.
    let own = old.filter(|_| wanted.is_none()).or(wanted).or(old);
    let plan = own.map(|own| ServicePlan { ports: mixed.into(), ..without_ports(own) });
    Piece { plan, is_last }
}

/// Destinations that go from one port of the service to another: one cannot have it before the other gave it up.
fn moved(old: Option<&ServicePlan>, wanted: Option<&ServicePlan>) -> HashSet<(Protocol, Address)> {
    let pairs = || {
        let pairs = merged_ports(ports_of(old), ports_of(wanted))
            .filter(|(before, after)| !is_shared(*before, *after));
        let pairs = pairs.map(|(before, after)| (plain(before), plain(after)));
        pairs.filter(|(before, after)| !destinations(*before).eq(destinations(*after)))
    };
    // Where all come or all go, which is where there are most, none moves.
    if pairs().all(|(before, _)| before.is_none()) || pairs().all(|(_, after)| after.is_none()) {
        return HashSet::new();
    }
    let not_in = |port| {
        let there: HashSet<_> = destinations(port).collect();
        move |at: &(Protocol, Address)| !there.contains(at)
    };
    let lost: HashSet<_> =
        pairs().flat_map(|(before, after)| destinations(before).filter(not_in(after))).collect();
    if lost.is_empty() {
        return lost;
    }
    let gained = pairs().flat_map(|(before, after)| destinations(after).filter(not_in(before)));
    gained.filter(|at| lost.contains(at)).collect()
}

fn destinations(port: Option<&PortPlan>) -> impl Iterator<Item = (Protocol, Address)> {
    port.into_iter()
        .flat_map(|port| port.destinations.iter().map(|destination| (port.protocol, destination.at)))
}

/// What it costs to change the ports of some destinations at once.
fn cost_of(
    destinations: &HashSet<(Protocol, Address)>,
    old: Option<&ServicePlan>,
    wanted: Option<&ServicePlan>,
) -> usize {
    if destinations.is_empty() {
        return 0;
    }
    let has = |port: Option<&PortPlan>| port.is_some_and(|port| has_any(port, destinations));
    let ports = merged_ports(ports_of(old), ports_of(wanted));
    ports
        .map(|(before, after)| (plain(before), plain(after)))
        .filter(|(before, after)| has(*before) || has(*after))
        .map(|(before, after)| cost(before, after))
        .sum()
}

fn plain(port: Option<&Arc<PortPlan>>) -> Option<&PortPlan> {
    port.map(|port| &**port)
}

/// One and the same, which can be told without a look into it.
fn is_shared(one: Option<&Arc<PortPlan>>, other: Option<&Arc<PortPlan>>) -> bool {
    one.zip(other).is_some_and(|(one, other)| Arc::ptr_eq(one, other))
}

/// A plan without its ports.
fn without_ports(plan: &ServicePlan) -> ServicePlan {
    let ServicePlan { cluster_ip, health_check_port, excess, ports: _ } = plan;
    ServicePlan {
        cluster_ip: *cluster_ip,
        health_check_port: *health_check_port,
        excess: *excess,
        ports: Ports::default(),
    }
}

fn has_any(port: &PortPlan, destinations: &HashSet<(Protocol, Address)>) -> bool {
    port.destinations.iter().any(|destination| destinations.contains(&(port.protocol, destination.at)))
}

/// About how many objects of the kernel a change of a port touches.
fn cost(before: Option<&PortPlan>, after: Option<&PortPlan>) -> usize {
    match (before, after) {
        (Some(before), Some(after)) => cost_of_pools(before, after) + front::cost(before, after),
        _ => before.map_or(0, PortPlan::weight) + after.map_or(0, PortPlan::weight),
    }
}

fn cost_of_pools(before: &PortPlan, after: &PortPlan) -> usize {
    // Each address says of which size the pool is, and where it stands.
    let addresses = before.destinations.len();
    if is_turned(before, after) {
        let endpoints =
            |port: &PortPlan| Pool::BOTH.into_iter().map(|pool| port.pool(pool).len()).sum::<usize>();
        let all = |port: &PortPlan| 2 * endpoints(port).saturating_mul(copies(port));
        return all(before) + all(after) + 2 * addresses;
    }
    let pools = Pool::BOTH.into_iter().map(|pool| differing(before.pool(pool), after.pool(pool)));
    match pools.sum::<usize>() {
        0 => 0,
        slots => 4 * slots.saturating_mul(copies(before).max(copies(after))) + addresses,
    }
}

/// Whether no endpoint of the port stays as it is in the kernel, wanted or not.
fn is_turned(before: &PortPlan, after: &PortPlan) -> bool {
    let kind = |port: &PortPlan| (port.affinity_seconds, port.shares_pools());
    kind(before) != kind(after)
}

/// How often each endpoint stands in the kernel, at most.
fn copies(port: &PortPlan) -> usize {
    if port.shares_pools() { 1 } else { port.destinations.len() }
}

fn differing(old: &[PlannedEndpoint], new: &[PlannedEndpoint]) -> usize {
    let same = old.iter().zip(new).filter(|(old, new)| old == new).count();
    old.len().max(new.len()) - same
}

/// The port on its way from one to the other; `None` if parting it helps nothing.
fn part(
    before: Option<&PortPlan>,
    after: Option<&PortPlan>,
    left: usize,
    most_turned: usize,
) -> Option<PortPlan> {
    if let Some((before, after)) = before.zip(after)
        && is_turned(before, after)
        && let Some(short) = shortened(before, most_turned)
    {
        return partly(Some(before), Some(&short), left);
    }
    let towards = match (before, after) {
        (Some(before), Some(after)) if front::cost(before, after) > left => {
            match front::has_same_pools(before, after) {
                true => front::partly(before, after, left),
                // First the endpoints, then the addresses.
                false => Some(front::carried(before, after)),
            }
        }
        (None, Some(after)) => front::partly(&after.with_destinations(Vec::new()), after, left),
        (Some(before), None) if front::weight(before) > left => {
            return front::partly(before, &before.with_destinations(Vec::new()), left);
        }
        _ => None,
    };
    let Some(towards) = towards else { return partly(before, after, left) };
    let fits = cost(before, Some(&towards)) <= left;
    let part = if fits { None } else { partly(before, Some(&towards), left) };
    Some(part.unwrap_or(towards)).filter(|part| Some(part) != before)
}

/// The port as it is wanted, with as many of its new endpoints as fit; `None` if parting it helps nothing. Where no
/// endpoint is wanted any more, those that are there go first, but for one: clients that still come are served to the end.
fn partly(before: Option<&PortPlan>, after: Option<&PortPlan>, left: usize) -> Option<PortPlan> {
    let slots = (left / 8).max(1);
    let sizes =
        [before, after].into_iter().flatten().flat_map(|port| Pool::BOTH.map(|pool| port.pool(pool).len()));
    if sizes.max().unwrap_or_default() <= 2 * slots {
        return None;
    }
    let fades = |pool| {
        let is_wanted = after.is_some_and(|after| !after.pool(pool).is_empty());
        before.is_some_and(|before| before.pool(pool).len() > 1) && !is_wanted
    };
    let front = before.filter(|_| Pool::BOTH.into_iter().any(fades)).or(after)?;
    if copies(front) > 1 {
        return None;
    }
    let pool = |pool| {
        let old = before.map(|before| before.pool(pool)).unwrap_or_default();
        let wanted = if fades(pool) { &old[..1] } else { front.pool(pool) };
        mixed(old, wanted, slots)
    };
    let part = PortPlan { cluster_pool: pool(Pool::Cluster), local_pool: pool(Pool::Local), ..front.clone() };
    (Some(&part) != before).then_some(part)
}

/// The port with as many endpoints as may be turned at once; `None` if it has no more.
fn shortened(port: &PortPlan, most: usize) -> Option<PortPlan> {
    let first = |pool: &[PlannedEndpoint]| pool.iter().take(most).copied().collect();
    let is_long = Pool::BOTH.into_iter().any(|pool| port.pool(pool).len() > most);
    is_long.then(|| PortPlan {
        cluster_pool: first(&port.cluster_pool),
        local_pool: first(&port.local_pool),
        ..port.clone()
    })
}

/// The first slots that differ as they are wanted, so many of them, and the others as they were. No endpoint twice: one
/// that has its new place already loses the old one.
fn mixed(old: &[PlannedEndpoint], new: &[PlannedEndpoint], slots: usize) -> Box<[PlannedEndpoint]> {
    let mut changed = 0;
    let cut = new.iter().enumerate().position(|(slot, backend)| {
        changed += usize::from(old.get(slot) != Some(backend));
        changed > slots
    });
    let done = &new[..cut.unwrap_or(new.len())];
    let placed: HashSet<(IpAddr, u16)> = done.iter().map(|backend| (backend.ip, backend.port)).collect();
    let rest = old.get(done.len()..).unwrap_or_default();
    let mut rest: Vec<PlannedEndpoint> =
        rest.iter().filter(|backend| !placed.contains(&(backend.ip, backend.port))).copied().collect();
    if cut.is_none() {
        // Those in front have their place; of the others, as many go as may.
        rest.truncate(rest.len().saturating_sub(slots - changed));
    }
    done.iter().copied().chain(rest).collect()
}

#[cfg(test)]
#[path = "../tests/unit/pieces.rs"]
mod tests;
