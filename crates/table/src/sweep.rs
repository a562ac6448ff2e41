//! Forgetting pins of clients whose endpoint is gone, so that their next connection moves at once.
//!
//! For a gone endpoint correctness does not hang on it: a pin that the sweep misses costs its client one
//! retransmission, because the rules drop the first packet to an endpoint that is no member and delete the
//! pin. It does where one pool becomes two: then the service goes without affinity until the sweep is done.
//!
//! Reading the pins may take long, and is done beside the sync thread; deleting some hundred of them is quick.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kernel::nft::{self, Batch, CommitError, CommitErrorKind, ElementData, Transport};
use model::{
    Address, Change, Family, Pool, PortPlan, Routing, ServiceKey, ServicePlan, merged_ports, ports_of,
};

use crate::layout::{TABLE, nft_family};
use crate::render::{destination_key, endpoint};
use crate::sets::{Door, SetName};

/// Pins deleted in one commit, in a few milliseconds: a pin that packets replace meanwhile spoils only its neighbours'
/// deletion.
pub const PINS_TOGETHER: usize = 512;
/// Other programs' commits interrupt the reading, and packets write meanwhile.
const ATTEMPTS: usize = 5;

/// A destination, or an endpoint: bytes as they stand in keys and data.
type Bytes = Vec<u8>;

/// Destinations of policy Local that the kernel's table knew as such before a rewrite, per [`Door`].
pub(crate) type SplitBefore = [HashSet<Bytes>; 2];

/// Endpoints per destination, per [`Door`]. Destinations of one port share theirs.
type Listed = [HashMap<Bytes, Vec<Arc<HashSet<Bytes>>>>; 2];

/// Which pins of a family are to go.
#[derive(Clone, Debug)]
pub struct PinSweep {
    pub family: Family,
    doomed: Doomed,
    /// Services that go without affinity until this is done.
    pub awaited_by: Vec<ServiceKey>,
}

#[derive(Clone, Debug)]
enum Doomed {
    /// Those of these destinations to these endpoints.
    Listed(Listed),
    /// All others.
    Unlisted(Listed),
}

/// A pin as the kernel holds it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pin {
    door: Door,
    key: Bytes,
    endpoint: Bytes,
}

impl PinSweep {
    /// Pins that some changes leave without their endpoint; `None` if there can be none.
    pub fn after(family: Family, changes: &[Change<'_>]) -> Option<PinSweep> {
        let mut gone = Listed::default();
        for change in changes {
            if let Some(old) = change.old {
                note_gone(&mut gone, old, change.new);
            }
        }
        let is_empty = gone.iter().all(HashMap::is_empty);
        (!is_empty).then_some(PinSweep { family, doomed: Doomed::Listed(gone), awaited_by: Vec::new() })
    }

    /// After a rewrite in place: every pin that names an endpoint its client may not be sent to.
    pub fn of_strangers(
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        before: &SplitBefore,
    ) -> PinSweep {
        let mut allowed = Listed::default();
        let ports = plans.values().flat_map(|plan| &plan.ports);
        for port in ports.filter(|port| port.affinity_seconds.is_some()) {
            note_allowed(&mut allowed, port, before);
        }
        PinSweep { family, doomed: Doomed::Unlisted(allowed), awaited_by: Vec::new() }
    }

    /// Fewer sweeps for the same pins: those of endpoints that are gone are one per family.
    pub fn merge(sweeps: impl Iterator<Item = PinSweep>) -> Vec<PinSweep> {
        let mut merged: Vec<PinSweep> = Vec::new();
        for sweep in sweeps {
            let alike = |other: &&mut PinSweep| {
                other.family == sweep.family && matches!(other.doomed, Doomed::Listed(_))
            };
            let into = merged.iter_mut().find(alike);
            let (Doomed::Listed(gone), Some(into)) = (&sweep.doomed, into) else {
                merged.push(sweep);
                continue;
            };
            into.awaited_by.extend(sweep.awaited_by.iter().cloned());
            if let Doomed::Listed(all) = &mut into.doomed {
                for (all, gone) in all.iter_mut().zip(gone) {
                    for (at, endpoints) in gone {
                        all.entry(at.clone()).or_default().extend(endpoints.iter().cloned());
                    }
                }
            }
        }
        merged
    }

    /// For services that wait for a sweep and have no pin that could be wrong.
    pub fn of_nothing(family: Family) -> PinSweep {
        PinSweep { family, doomed: Doomed::Listed(Listed::default()), awaited_by: Vec::new() }
    }

    /// Read the pins that are to go.
    pub fn find<T: Transport>(&self, transport: &mut T) -> Result<Vec<Pin>, nft::Error> {
        let mut found = Vec::new();
        for door in Door::BOTH.into_iter().filter(|door| self.concerns(*door)) {
            // While others commit, every reading may miss some: together they miss few, which the rules find.
            for attempt in 1.. {
                match self.read(transport, door, &mut found) {
                    Ok(()) => break,
                    Err(nft::Error::Interrupted { .. }) if attempt < ATTEMPTS => {}
                    Err(nft::Error::Interrupted { .. }) if self.awaited_by.is_empty() => break,
                    Err(error) => return Err(error),
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    fn concerns(&self, door: Door) -> bool {
        match &self.doomed {
            Doomed::Listed(gone) => !gone[door as usize].is_empty(),
            Doomed::Unlisted(_) => true,
        }
    }

    fn read<T: Transport>(
        &self,
        transport: &mut T,
        door: Door,
        found: &mut Vec<Pin>,
    ) -> Result<(), nft::Error> {
        let client = match self.family {
            Family::V4 => 4,
            Family::V6 => 16,
        };
        transport.dump_elements(nft_family(self.family), TABLE, &SetName::Pins(door).name(), &mut |pin| {
            if let (Some(at), ElementData::Value(endpoint)) = (pin.key.get(client..), pin.data)
                && self.dooms(door, at, endpoint)
            {
                found.push(Pin { door, key: pin.key.to_vec(), endpoint: endpoint.to_vec() });
            }
        })
    }

    fn dooms(&self, door: Door, at: &[u8], endpoint: &[u8]) -> bool {
        let lists = |listed: &Listed| {
            let sets = listed[door as usize].get(at).into_iter().flatten();
            sets.into_iter().any(|set| set.contains(endpoint))
        };
        match &self.doomed {
            Doomed::Listed(gone) => lists(gone),
            Doomed::Unlisted(allowed) => !lists(allowed),
        }
    }
}

/// The endpoints that a service's destinations lose. A destination that goes altogether loses all.
fn note_gone(gone: &mut Listed, old: &ServicePlan, new: Option<&ServicePlan>) {
    for (before, after) in merged_ports(&old.ports, ports_of(new)) {
        let is_changed = |port: &&Arc<PortPlan>| port.affinity_seconds.is_some() && Some(*port) != after;
        let Some(before) = before.filter(is_changed) else { continue };
        let after = after.filter(|port| port.affinity_seconds.is_some());
        let now: HashMap<Address, [Option<Pool>; 2]> = after
            .iter()
            .flat_map(|port| &port.destinations)
            .map(|destination| (destination.at, destination.routing.pools()))
            .collect();
        let mut sets = SharedSets::default();
        for destination in &before.destinations {
            let pools = (destination.routing.pools(), now.get(&destination.at).copied().unwrap_or_default());
            let lost = sets.get(pools, || {
                let kept: HashSet<Bytes> =
                    after.map(|port| union(port, pools.1).collect()).unwrap_or_default();
                union(before, pools.0).filter(|endpoint| !kept.contains(endpoint)).collect()
            });
            if !lost.is_empty() {
                let (door, key) = destination_key(destination.at, before.protocol);
                gone[door as usize].entry(key.as_slice().to_vec()).or_default().push(lost);
            }
        }
    }
}

/// The endpoints that old pins of a port's destinations may name. Where two pools are new, a pin may stem from a
/// client of either kind: only an endpoint of both pools is right for it.
fn note_allowed(allowed: &mut Listed, port: &PortPlan, before: &SplitBefore) {
    let mut sets = SharedSets::default();
    for destination in &port.destinations {
        let (door, key) = destination_key(destination.at, port.protocol);
        let was_split = before[door as usize].contains(key.as_slice());
        let strict = matches!(destination.routing, Routing::Split { .. }) && !was_split;
        let pools = destination.routing.pools();
        let members = sets.get((pools, strict), || match (strict, pools) {
            (true, [Some(outside), Some(inside)]) => {
                let other: HashSet<Bytes> = union(port, [Some(inside), None]).collect();
                union(port, [Some(outside), None]).filter(|endpoint| other.contains(endpoint)).collect()
            }
            _ => union(port, pools).collect(),
        });
        allowed[door as usize].entry(key.as_slice().to_vec()).or_default().push(members);
    }
}

fn union(port: &PortPlan, pools: [Option<Pool>; 2]) -> impl Iterator<Item = Bytes> {
    let backends = pools.into_iter().flatten().flat_map(|pool| port.pool(pool));
    backends.map(|backend| endpoint(backend).as_slice().to_vec())
}

/// Endpoints by what they depend on, so that destinations of one port share them.
struct SharedSets<K>(Vec<(K, Arc<HashSet<Bytes>>)>);

impl<K> Default for SharedSets<K> {
    fn default() -> SharedSets<K> {
        SharedSets(Vec::new())
    }
}

impl<K: PartialEq> SharedSets<K> {
    fn get(&mut self, key: K, make: impl FnOnce() -> HashSet<Bytes>) -> Arc<HashSet<Bytes>> {
        if let Some((_, known)) = self.0.iter().find(|(known, _)| *known == key) {
            return known.clone();
        }
        let made = Arc::new(make());
        self.0.push((key, made.clone()));
        made
    }
}

/// Read which destinations are of policy Local in the kernel's table, before it is rewritten.
pub fn split_before<T: Transport>(transport: &mut T, family: Family) -> Result<SplitBefore, nft::Error> {
    let mut split = SplitBefore::default();
    for door in Door::BOTH {
        let map = SetName::Internal(door).name();
        transport.dump_elements(nft_family(family), TABLE, &map, &mut |element| {
            split[door as usize].insert(element.key.to_vec());
        })?;
    }
    Ok(split)
}

/// Delete pins, some at a time. One that packets replaced meanwhile spoils the deletion of its neighbours, which then
/// go one by one; what still cannot go is left to the rules, which know a stale pin.
pub fn forget<T: Transport>(transport: &mut T, family: Family, pins: &[Pin]) -> Result<usize, CommitError> {
    let mut deleted = 0;
    for some in pins.chunks(PINS_TOGETHER) {
        match transport.commit(&deletion(family, some)) {
            Ok(()) => deleted += some.len(),
            Err(error) if error.kind == CommitErrorKind::Exists => {
                for pin in some {
                    deleted +=
                        usize::from(transport.commit(&deletion(family, std::slice::from_ref(pin))).is_ok());
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(deleted)
}

fn deletion(family: Family, pins: &[Pin]) -> Batch {
    let mut batch = Batch::new(nft_family(family), TABLE);
    delete_pins(&mut batch, pins);
    batch
}

/// Delete pins that may expire at any moment: adding one with the data it has makes the deletion succeed either way. It
/// fails for a pin that a packet has replaced. (`DESTROYSETELEM` would not, but before Linux 6.3 it spoils every batch.)
pub fn delete_pins(batch: &mut Batch, pins: &[Pin]) {
    for pin in pins {
        let map = SetName::Pins(pin.door).name();
        batch.add_element(&map, &pin.key, ElementData::Value(&pin.endpoint), None);
        batch.delete_element(&map, &pin.key);
    }
}
