//! How much one service may ask of a node. A user who may write a Service and its slices could otherwise fill the kernel's
//! memory, and hold up what others change.

use std::net::IpAddr;

use super::{Address, Destination, Pool, PortPlan};

/// What a service may weigh at most, per family. 20,000 ports with three endpoints each, or one port with a hundred
/// thousand, are below it; in the kernel it is some 40 MB.
pub const MOST_WEIGHT: usize = 300_000;

/// Pools that are larger are not copied for each address.
const LARGEST_COPIED: usize = 256;

/// Pools that would have more copies, endpoints times addresses, are not copied for each address either.
const MOST_COPIES: usize = 4096;

/// IPVS has no pool that several virtual servers share: a port is its addresses times its endpoints there. One that would
/// be more than this is left to rules, which have such pools.
pub const MOST_OF_IPVS: usize = 4096;

/// Beyond this many endpoints no other combination of slices with different ports is read, and the ports that need one
/// are left out. The slices that Kubernetes writes for a service have the same ports, or make up a handful of
/// combinations.
pub(super) const MOST_READ: usize = 1_000_000;

/// What was left out because a service asks for more than [`MOST_WEIGHT`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Excess {
    pub ports: u32,
    /// Places in the pools of the last port that is served.
    pub endpoints: u32,
}

impl Excess {
    pub fn is_none(self) -> bool {
        self == Excess::default()
    }
}

/// Numbers for the pool of policy Cluster and that of policy Local.
type Both = [usize; 2];

impl PortPlan {
    /// Whether each pool of the port stands once in the kernel, and all addresses lead there; if not, each address has a
    /// copy of the pools it leads to.
    pub fn shares_pools(&self) -> bool {
        shares(self.sizes(), self.addresses())
    }

    /// Whether IPVS picks the endpoints of the port in mode ipvs. Rules do where that would be too much for it, and where
    /// an address of the service is one of the node's own, `on_node`: there another service may have the node port of the
    /// same number, or an endpoint may listen on the node port itself, and IPVS cannot tell them apart.
    pub fn is_picked_by_ipvs(&self, on_node: &[IpAddr]) -> bool {
        let pools = || self.destinations.iter().filter_map(|at| at.routing.pools()[0]);
        let is_on_node = |at: &Destination| match at.at {
            Address::Vip(ip, _) => on_node.contains(&ip),
            Address::NodePort(number) => {
                pools().any(|pool| self.pool(pool).iter().any(|endpoint| endpoint.port == number))
            }
        };
        pools().map(|pool| self.pool(pool).len()).sum::<usize>() <= MOST_OF_IPVS
            && !self.destinations.iter().any(is_on_node)
    }

    /// About how many objects the port is in the kernel.
    pub fn weight(&self) -> usize {
        self.weight_with(self.sizes())
    }

    /// The same if its pools were of these sizes.
    fn weight_with(&self, sizes: Both) -> usize {
        let addresses = self.addresses();
        let copies = if shares(sizes, addresses) { [1; 2] } else { addresses };
        // A slot, and beside it a member or a hairpin.
        let pools: usize = sizes.iter().zip(copies).map(|(endpoints, copies)| 2 * endpoints * copies).sum();
        let sources =
            |at: &Destination| at.allowed_sources.as_ref().map_or(0, |allowed| allowed.nets.len() + 1);
        self.destinations.iter().map(|at| 3 + sources(at)).sum::<usize>() + pools
    }

    fn sizes(&self) -> Both {
        Pool::BOTH.map(|pool| self.pool(pool).len())
    }

    /// Sizes of its pools with which it weighs no more than this, in proportion, and none of them empty.
    fn sizes_within(&self, most: usize) -> Option<Both> {
        let room = most.checked_sub(self.weight_with([0; 2]))? / 2;
        // What is left of shared pools may be so little that it is copied.
        let copies = self.addresses().into_iter().max()?.max(1);
        let mut cuts = [room, room / copies].into_iter().map(|room| cut(self.sizes(), room));
        cuts.find(|sizes| self.weight_with(*sizes) <= most)
    }

    /// How many addresses of the port lead to each pool.
    fn addresses(&self) -> Both {
        let leads = |pool| self.destinations.iter().filter(move |at| at.routing.forwards_to(pool));
        Pool::BOTH.map(|pool| leads(pool).count())
    }
}

/// So many endpoints in all, but at least one of each pool that has any.
fn cut([cluster, local]: Both, room: usize) -> Both {
    let first = (cluster * room / (cluster + local).max(1)).max(1).min(cluster);
    [first, room.saturating_sub(first).max(1).min(local)]
}

fn shares(sizes: Both, addresses: Both) -> bool {
    // Both or none: a pin may name endpoints of either, and they are looked up in one way.
    sizes.into_iter().zip(addresses).any(|(endpoints, addresses)| {
        endpoints > LARGEST_COPIED || endpoints.saturating_mul(addresses) > MOST_COPIES
    })
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
        let Some(sizes) = port.sizes_within(std::mem::take(&mut self.left)) else {
            self.excess.ports += 1;
            return None;
        };
        for (pool, size) in [&mut port.cluster_pool, &mut port.local_pool].into_iter().zip(sizes) {
            let left_out = u32::try_from(pool.len() - size).unwrap_or(u32::MAX);
            self.excess.endpoints = self.excess.endpoints.saturating_add(left_out);
            *pool = pool[..size].into();
        }
        Some(port)
    }
}
