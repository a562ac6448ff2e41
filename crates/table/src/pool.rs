//! Where the endpoints of a service port stand: copied for each of its addresses, or in a map of the port's own.
//!
//! Copies keep the table flat: no chain or map per service. But they are addresses × endpoints elements, and each pool
//! size has a rule on the common map. A port with many of either therefore gets one map and one chain of its own,
//! to which all of its addresses lead: addresses + endpoints elements, however they are combined.

use std::fmt;

use model::{Address, Pool, PortPlan};
use sha2::{Digest, Sha256};

/// A service port, the same after a restart: a hash of names that a tenant chooses, long enough that no one finds two
/// services with the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId([u8; 16]);

impl PortId {
    fn of(service: &str, port: &PortPlan) -> PortId {
        // Manifests may give two ports one name.
        let number = match port.destinations.first().map(|destination| destination.at) {
            Some(Address::Vip(_, number) | Address::NodePort(number)) => number,
            None => 0,
        };
        let digest = Sha256::digest(format!("{service}/{}/{number}/{}", port.protocol, port.name));
        let mut id = [0; 16];
        id.iter_mut().zip(digest.iter()).for_each(|(to, from)| *to = *from);
        PortId(id)
    }
}

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// One pool of one service port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId {
    pub port: PortId,
    pub pool: Pool,
}

impl PoolId {
    pub fn name(self) -> String {
        let pool = match self.pool {
            Pool::Cluster => "cluster",
            Pool::Local => "local",
        };
        format!("pool-{}-{pool}", self.port)
    }
}

/// Which pools of a port have maps of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnPools {
    port: Option<PortId>,
    drawn: [bool; 2],
}

impl OwnPools {
    /// `drawn`: the pools that rules draw from.
    pub fn of(service: &str, port: &PortPlan, drawn: [bool; 2]) -> OwnPools {
        let has_own = drawn.contains(&true) && port.shares_pools();
        OwnPools { port: has_own.then(|| PortId::of(service, port)), drawn }
    }

    pub fn get(&self, pool: Pool) -> Option<PoolId> {
        self.port.filter(|_| self.drawn[pool as usize]).map(|port| PoolId { port, pool })
    }
}

/// The affinity timeout that pins of a port get. Each one that is in use has chains of its own, so that their number has
/// to be bounded whatever tenants write: exact up to a minute, then rounded up to 5 s, from ten minutes to a minute,
/// from two hours to ten minutes. At most 410 are left of the 86,400 that the API allows.
pub(crate) fn pin_seconds(port: &PortPlan) -> Option<u32> {
    port.affinity_seconds.map(round_up)
}

fn round_up(seconds: u32) -> u32 {
    let step = match seconds {
        0..=60 => 1,
        61..=600 => 5,
        601..=7200 => 60,
        _ => 600,
    };
    seconds.div_ceil(step).saturating_mul(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_timeouts_are_exact_and_all_are_few() {
        for exact in
            [1, 3, 10, 30, 60, 90, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400]
        {
            assert_eq!(round_up(exact), exact);
        }
        let mut rounded: Vec<u32> = (1..=86_400).map(round_up).collect();
        assert!(
            (1..=86_400)
                .zip(&rounded)
                .all(|(wanted, given)| wanted <= *given && *given <= wanted + wanted / 10 + 1)
        );
        rounded.dedup();
        assert_eq!(rounded.len(), 410);
        assert_eq!(round_up(u32::MAX), u32::MAX);
    }
}
