//! Which destination a new connection gets.
//!
//! The list of destinations is walked as the kernel walks it, from the one added last to the one added first.

use std::net::IpAddr;

use kernel::ipvs::{Destination, flags};

use super::hashing;
use super::server::{Real, Server};

/// What a scheduler keeps between connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// `rr`: the last choice; `None` is the head of the list.
    cursor: Option<Destination>,
    /// `wrr`: the last choice.
    weighted_cursor: Option<Destination>,
    /// `wrr`: only destinations of at least this weight get their turn; 0 before the first connection.
    current_weight: u32,
    /// `lblc`: who serves this address; `lblcr`: all of them, the last one first.
    keepers: Vec<Destination>,
}

impl Memory {
    /// `wrr` begins again at the head, but keeps to the weight it was at.
    pub(super) fn pool_changed(&mut self, pool: &[Real]) {
        let (step, greatest) = weights(pool);
        self.weighted_cursor = None;
        if self.current_weight > greatest || self.current_weight == 0 {
            self.current_weight = greatest;
        } else if step > 1 {
            self.current_weight = self.current_weight / step * step + 1;
        }
    }

    /// `rr` goes on where it would have: behind the one before.
    pub(super) fn removed(&mut self, gone: Destination, before: Option<Destination>) {
        if self.cursor == Some(gone) {
            self.cursor = before;
        }
    }
}

/// The connections of a destination, as far as schedulers count them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    pub(super) active: u64,
    pub(super) inactive: u64,
}

/// The client of a new connection, and the address it called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) address: IpAddr,
    pub(super) port: u16,
    pub(super) called: IpAddr,
}

/// `None` if no destination is available.
pub(super) fn choose(
    server: &mut Server,
    caller: Caller,
    load: impl Fn(Destination) -> Load,
) -> Option<Destination> {
    let pool = &server.pool;
    let with_port = server.settings.flags & flags::HASH_PORT != 0;
    let fallback = server.settings.flags & flags::HASH_FALLBACK != 0;
    let port = if with_port { caller.port } else { 0 };
    match server.settings.scheduler.as_str() {
        "rr" => round_robin(pool, &mut server.memory),
        "wrr" => weighted_round_robin(pool, &mut server.memory),
        "lc" => least(pool, |real| (connections(load(real.at)), 1)),
        "wlc" => least(pool, |real| (connections(load(real.at)), real.weight)),
        "sed" => least(pool, |real| (load(real.at).active + 1, real.weight)),
        "nq" => idle(pool, &load).or_else(|| least(pool, |real| (load(real.at).active + 1, real.weight))),
        "lblc" => locality(pool, &mut server.memory, false, load),
        "lblcr" => locality(pool, &mut server.memory, true, load),
        "dh" => hashing::by_called_address(pool, caller.called),
        "sh" => hashing::by_source(pool, caller.address, port, fallback),
        "mh" => hashing::by_ranking(pool, caller.address, port),
        "fo" => pool
            .iter()
            .filter(|real| real.weight > 0)
            .rev()
            .max_by_key(|real| real.weight)
            .map(|real| real.at),
        "ovf" => {
            let room = |real: &&Real| real.weight > 0 && load(real.at).active <= u64::from(real.weight);
            pool.iter().filter(room).rev().max_by_key(|real| real.weight).map(|real| real.at)
        }
        // "none" refuses every connection.
        _ => None,
    }
}

/// An active connection weighs as much as 256 others.
fn connections(load: Load) -> u64 {
    (load.active << 8) + load.inactive
}

/// The places of a list, from behind the cursor once round to the cursor.
fn round(pool: &[Real], cursor: Option<Destination>) -> impl Iterator<Item = &Real> {
    let start = cursor.and_then(|at| pool.iter().position(|real| real.at == at)).map_or(0, |place| place + 1);
    pool.iter().cycle().skip(start).take(pool.len())
}

fn round_robin(pool: &[Real], memory: &mut Memory) -> Option<Destination> {
    let next = round(pool, memory.cursor).find(|real| real.weight > 0)?.at;
    memory.cursor = Some(next);
    Some(next)
}

/// Rounds over those of the greatest weight, then over those of at least the next lower step, and so on.
fn weighted_round_robin(pool: &[Real], memory: &mut Memory) -> Option<Destination> {
    let (step, greatest) = weights(pool);
    if greatest == 0 {
        return None;
    }
    if memory.current_weight == 0 {
        memory.current_weight = greatest;
    }
    loop {
        let place = memory.weighted_cursor.and_then(|at| pool.iter().position(|real| real.at == at));
        let mut rest = pool.iter().skip(place.map_or(0, |place| place + 1));
        if let Some(next) = rest.find(|real| real.weight >= memory.current_weight) {
            memory.weighted_cursor = Some(next.at);
            return Some(next.at);
        }
        memory.weighted_cursor = None;
        let lower = memory.current_weight.saturating_sub(step);
        memory.current_weight = if lower == 0 { greatest } else { lower };
    }
}

/// `wrr`: the step between rounds, and the least weight that the first round asks for; 0 if nobody has any.
fn weights(pool: &[Real]) -> (u32, u32) {
    let step = pool.iter().map(|real| real.weight).fold(0, gcd).max(1);
    let greatest = pool.iter().map(|real| real.weight).max().unwrap_or_default();
    (step, greatest.saturating_sub(step - 1))
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The first of the list with the least cost for its weight.
fn least<'a>(
    pool: impl IntoIterator<Item = &'a Real>,
    cost: impl Fn(&Real) -> (u64, u32),
) -> Option<Destination> {
    let mut found: Option<(&Real, u64, u64)> = None;
    for real in pool.into_iter().filter(|real| real.weight > 0) {
        let (cost, weight) = cost(real);
        let weight = u64::from(weight);
        if found.is_none_or(|(_, best, of)| best * weight > cost * of) {
            found = Some((real, cost, weight));
        }
    }
    found.map(|(real, _, _)| real.at)
}

fn idle(pool: &[Real], load: impl Fn(Destination) -> Load) -> Option<Destination> {
    pool.iter().find(|real| real.weight > 0 && load(real.at).active == 0).map(|real| real.at)
}

/// One destination for an address until it has more connections than weight while another has less than half. `lblcr`
/// keeps those it had, and takes the least loaded of them.
fn locality(
    pool: &[Real],
    memory: &mut Memory,
    replicates: bool,
    load: impl Fn(Destination) -> Load,
) -> Option<Destination> {
    let cost = |real: &Real| (connections(load(real.at)), real.weight);
    let half_idle = |real: &Real| load(real.at).active * 2 < u64::from(real.weight);
    let is_loaded = |at| pool.iter().any(|real| real.at == at && load(at).active > u64::from(real.weight));
    let keepers = memory.keepers.iter().filter_map(|at| pool.iter().find(|real| real.at == *at));
    let kept = least(keepers, cost).filter(|at| !(is_loaded(*at) && pool.iter().any(half_idle)));
    if kept.is_some() {
        return kept;
    }
    let chosen = least(pool, cost)?;
    if !replicates {
        memory.keepers.clear();
    }
    if !memory.keepers.contains(&chosen) {
        memory.keepers.insert(0, chosen);
    }
    Some(chosen)
}
