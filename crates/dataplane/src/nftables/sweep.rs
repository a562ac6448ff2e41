//! Forgetting pins of clients whose endpoint is gone, so that their next connection moves at once.
//!
//! For a gone endpoint correctness does not hang on it: a pin that the sweep misses costs its client one
//! retransmission, because the rules drop the first packet to an endpoint that is no member and delete the
//! pin. It does where one pool becomes two (see [`super::Nftables`]): then a failed sweep is an error.

use std::collections::{HashMap, HashSet};

use kernel::nft::{Batch, ElementData, Transport};
use model::{Destination, Family, PortPlan, Routing, ServiceKey, ServicePlan};

use super::bytes::Fields;
use super::diff::Difference;
use super::layout::{Dialect, TABLE};
use super::render::{destination_key, endpoint, in_every_pool, pools_of};
use super::sets::{Door, SetName};
use crate::backend::SyncError;

/// Pins deleted in one commit: a pin that packets replace meanwhile spoils only its neighbours' deletion.
const TOGETHER: usize = 512;
/// Other programs' commits interrupt the reading, and packets write meanwhile.
const ATTEMPTS: usize = 5;

/// A destination, or a destination and an endpoint: bytes as they stand in keys.
pub(crate) type Bytes = Vec<u8>;

/// Destinations of policy Local that the kernel's table knew as such before a rewrite, per [`Door`].
pub(crate) type SplitBefore = [HashSet<Bytes>; 2];

/// Which pins are to go.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    gone: [HashSet<Bytes>; 2],
}

impl Sweep {
    /// The members that a committed change took away for good.
    pub(crate) fn after(difference: &Difference) -> Sweep {
        let mut sweep = Sweep::default();
        for element in &difference.removed {
            if let SetName::Members(door, _) = element.set {
                sweep.gone[door as usize].insert(element.key.as_slice().to_vec());
            }
        }
        for element in &difference.added {
            if let SetName::Members(door, _) = element.set {
                sweep.gone[door as usize].remove(element.key.as_slice());
            }
        }
        sweep
    }

    /// Delete the pins. Returns how many.
    pub(crate) fn run<T: Transport>(&self, transport: &mut T, dialect: &Dialect) -> Result<usize, SyncError> {
        let mut deleted = 0;
        for door in Door::BOTH {
            let gone = &self.gone[door as usize];
            if !gone.is_empty() {
                deleted += delete_pins(transport, dialect, door, |member| gone.contains(member))?;
            }
        }
        Ok(deleted)
    }
}

/// Read which destinations are of policy Local in the kernel's table, before it is rewritten.
pub(crate) fn split_before<T: Transport>(
    transport: &mut T,
    dialect: &Dialect,
) -> Result<SplitBefore, SyncError> {
    let mut split = SplitBefore::default();
    for door in Door::BOTH {
        let map = SetName::Internal(door).name();
        transport.dump_elements(dialect.nft_family(), TABLE, &map, &mut |element| {
            split[door as usize].insert(element.key.to_vec());
        })?;
    }
    Ok(split)
}

/// After a rewrite in place: delete every pin that names an endpoint its client may not be sent to.
pub(crate) fn sweep_strangers<T: Transport>(
    transport: &mut T,
    dialect: &Dialect,
    plans: &HashMap<ServiceKey, ServicePlan>,
    before: &SplitBefore,
) -> Result<usize, SyncError> {
    let mut allowed: [HashSet<Bytes>; 2] = Default::default();
    for plan in plans.values().filter(|plan| plan.affinity_seconds.is_some()) {
        for port in &plan.ports {
            for destination in &port.destinations {
                let (door, key) = destination_key(destination.at, port.protocol);
                let was_split = before[door as usize].contains(key.as_slice());
                let members = members(port, destination, was_split);
                allowed[door as usize].extend(members.map(|member| key.append(&member).as_slice().to_vec()));
            }
        }
    }
    let mut deleted = 0;
    for door in Door::BOTH {
        let allowed = &allowed[door as usize];
        deleted += delete_pins(transport, dialect, door, |member| !allowed.contains(member))?;
    }
    Ok(deleted)
}

/// The endpoints that old pins of a destination may name. Where two pools are new, a pin may stem from a
/// client of either kind: only an endpoint of both pools is right for it.
fn members(port: &PortPlan, destination: &Destination, was_split: bool) -> impl Iterator<Item = Fields> {
    let is_strict = matches!(destination.routing, Routing::Split { .. }) && !was_split;
    let right = is_strict.then(|| in_every_pool(port, destination.routing));
    let union = pools_of(destination.routing).into_iter().flatten().flat_map(|pool| port.pool(pool));
    union
        .filter(move |backend| right.as_ref().is_none_or(|set| set.contains(&(backend.ip, backend.port))))
        .map(endpoint)
}

/// Delete the pins whose destination and endpoint are doomed, trying again when others get in between.
fn delete_pins<T: Transport>(
    transport: &mut T,
    dialect: &Dialect,
    door: Door,
    doomed: impl Fn(&[u8]) -> bool,
) -> Result<usize, SyncError> {
    let mut deleted = 0;
    for attempt in 1.. {
        match try_delete_pins(transport, dialect, door, &doomed, &mut deleted) {
            Err(_) if attempt < ATTEMPTS => {}
            other => return other.map(|()| deleted),
        }
    }
    Ok(deleted)
}

fn try_delete_pins<T: Transport>(
    transport: &mut T,
    dialect: &Dialect,
    door: Door,
    doomed: impl Fn(&[u8]) -> bool,
    deleted: &mut usize,
) -> Result<(), SyncError> {
    let family = dialect.nft_family();
    let map = SetName::Pins(door).name();
    let client = match dialect.family {
        Family::V4 => 4,
        Family::V6 => 16,
    };
    let mut pins: Vec<(Bytes, Bytes)> = Vec::new();
    transport.dump_elements(family, TABLE, &map, &mut |pin| {
        let (Some(destination), ElementData::Value(endpoint)) = (pin.key.get(client..), pin.data) else {
            return;
        };
        if doomed(&[destination, endpoint].concat()) {
            pins.push((pin.key.to_vec(), endpoint.to_vec()));
        }
    })?;
    for some in pins.chunks(TOGETHER) {
        let mut batch = Batch::new(family, TABLE);
        some.iter().for_each(|(key, endpoint)| forget(&mut batch, &map, key, endpoint));
        transport.commit(&batch)?;
        *deleted += some.len();
    }
    Ok(())
}

/// Delete a pin that may expire at any moment: adding it with the data it has makes the deletion succeed
/// either way. (`DESTROYSETELEM` would do, but only from Linux 6.3 on.)
fn forget(batch: &mut Batch, map: &str, key: &[u8], endpoint: &[u8]) {
    batch.add_element(map, key, ElementData::Value(endpoint), None);
    batch.delete_element(map, key);
}
