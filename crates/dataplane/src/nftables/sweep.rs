//! Forgetting pins of clients whose endpoint is gone, so that their next connection moves at once.
//!
//! Correctness does not hang on it: a pin that the sweep misses costs its client one retransmission, because
//! the rules drop the first packet to an endpoint that is no member and delete the pin.

use std::collections::HashSet;

use kernel::nft::{Batch, ElementData, Transport};
use model::{Family, ServicePlan};

use super::diff::Difference;
use super::element::Element;
use super::layout::{Dialect, TABLE};
use super::render::render;
use super::sets::{Door, SetName};
use crate::backend::SyncError;

/// Destination and endpoint, as the bytes of a member element.
type Member = Vec<u8>;

/// Which pins are to go.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    gone: [HashSet<Member>; 2],
}

impl Sweep {
    /// The members that a committed change took away for good.
    pub(crate) fn after(difference: &Difference) -> Sweep {
        let mut sweep = Sweep::default();
        for element in &difference.removed {
            if let SetName::Members(door, _) = element.set {
                sweep.gone[door as usize].insert(member(element));
            }
        }
        for element in &difference.added {
            if let SetName::Members(door, _) = element.set {
                sweep.gone[door as usize].remove(&member(element));
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

/// After a rewrite in place: delete every pin that names no current member.
pub(crate) fn sweep_strangers<'a, T: Transport>(
    transport: &mut T,
    dialect: &Dialect,
    plans: impl Iterator<Item = (&'a str, &'a ServicePlan)>,
) -> Result<usize, SyncError> {
    let mut members: [HashSet<Member>; 2] = Default::default();
    for (service, plan) in plans.filter(|(_, plan)| plan.affinity_seconds.is_some()) {
        for element in render(service, plan) {
            if let SetName::Members(door, _) = element.set {
                members[door as usize].insert(member(&element));
            }
        }
    }
    let mut deleted = 0;
    for door in Door::BOTH {
        let current = &members[door as usize];
        deleted += delete_pins(transport, dialect, door, |member| !current.contains(member))?;
    }
    Ok(deleted)
}

fn member(element: &Element) -> Member {
    element.key.as_slice().to_vec()
}

fn delete_pins<T: Transport>(
    transport: &mut T,
    dialect: &Dialect,
    door: Door,
    doomed: impl Fn(&[u8]) -> bool,
) -> Result<usize, SyncError> {
    let family = dialect.nft_family();
    let map = SetName::Pins(door).name();
    let client = match dialect.family {
        Family::V4 => 4,
        Family::V6 => 16,
    };
    let mut batch = Batch::new(family, TABLE);
    let mut count = 0;
    let mut member = Vec::new();
    transport.dump_elements(family, TABLE, &map, &mut |pin| {
        let (Some(destination), ElementData::Value(endpoint)) = (pin.key.get(client..), pin.data) else {
            return;
        };
        member.clear();
        member.extend_from_slice(destination);
        member.extend_from_slice(endpoint);
        if doomed(&member) {
            forget(&mut batch, &map, pin.key, endpoint);
            count += 1;
        }
    })?;
    transport.commit(&batch)?;
    Ok(count)
}

/// Delete a pin that may expire at any moment: adding it with the data it has makes the deletion succeed
/// either way. (`DESTROYSETELEM` would do, but only from Linux 6.3 on.)
fn forget(batch: &mut Batch, map: &str, key: &[u8], endpoint: &[u8]) {
    batch.add_element(map, key, ElementData::Value(endpoint), None);
    batch.delete_element(map, key);
}
