//! How much one service may ask of a node. Whoever may write a Service and its slices could else fill the kernel's
//! memory, and hold up what others change.

use super::{Backend, Pool, PortPlan};

/// What a service may weigh at most, per family. 20,000 ports with three endpoints each, or one port with a hundred
/// thousand, are below it; in the kernel it is some 40 MB.
pub const MOST_WEIGHT: usize = 300_000;

/// Beyond this many copies a pool is not copied for each address, but shared by them.
pub const MOST_COPIES: usize = 4096;

/// Beyond this many endpoints no other combination of slices with different ports is read, and the ports that need one
/// are left out. The slices that Kubernetes writes for a service have the same ports, or make up a handful of
/// combinations.
pub(super) const MOST_READ: usize = 1_000_000;

/// What was left out because a service asks for more than [`MOST_WEIGHT`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Excess {
    pub ports: usize,
    /// Places in the pools of the last port that is served.
    pub endpoints: usize,
}

impl Excess {
    pub fn is_none(self) -> bool {
        self == Excess::default()
    }
}

impl PortPlan {
    /// About how many objects the port is in the kernel.
    pub fn weight(&self) -> usize {
        let addresses = self.destinations.len();
        let ranges = |ranges: &[ipnet::IpNet]| ranges.len();
        let sources: usize = self
            .destinations
            .iter()
            .map(|destination| destination.allowed_sources.as_deref().map_or(0, ranges))
            .sum();
        let pools: usize = Pool::BOTH.into_iter().map(|pool| pool_weight(self.pool(pool), addresses)).sum();
        3 * addresses + sources + pools
    }
}

/// A slot, and beside it a member or a hairpin.
fn pool_weight(pool: &[Backend], addresses: usize) -> usize {
    let copies = pool.len().saturating_mul(addresses);
    2 * if copies > MOST_COPIES { pool.len() } else { copies }
}

/// What is left of a service's share while its ports are planned.
pub(super) struct Share {
    left: usize,
    pub(super) excess: Excess,
}

impl Share {
    pub(super) fn whole() -> Share {
        Share { left: MOST_WEIGHT, excess: Excess::default() }
    }

    /// Whether nothing more fits: the ports that follow are left out without a look at their endpoints.
    pub(super) fn is_used_up(&self) -> bool {
        self.left == 0
    }

    /// Take the port in, with as many endpoints as fit. The first that does not fit whole is the last.
    pub(super) fn take(&mut self, mut port: PortPlan) -> Option<PortPlan> {
        let weight = port.weight();
        if weight <= self.left {
            self.left -= weight;
            return Some(port);
        }
        let pools: usize = Pool::BOTH.into_iter().map(|pool| port.pool(pool).len()).sum();
        let without = weight.saturating_sub(2 * pools);
        let room = std::mem::take(&mut self.left).saturating_sub(without) / 2;
        if room < Pool::BOTH.len() {
            self.excess.ports += 1;
            return None;
        }
        for pool in [&mut port.cluster_pool, &mut port.local_pool] {
            let share = (pool.len() * room / pools).max(1).min(pool.len());
            self.excess.endpoints += pool.len() - share;
            *pool = pool[..share].into();
        }
        Some(port)
    }
}
