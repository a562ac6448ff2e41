//! Everything the sources said, packed, and which services that touched.
//!
//! Pure: objects go in one at a time, plans are made from the views that come out. The order in which
//! objects arrive leaves no trace.

mod slices;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use ipnet::IpNet;
use model::{EndpointSlice, Family, Service, ServiceKey};

use crate::dirty::{ChangeCount, DirtyMarks, DirtySet};
use crate::packed::{PackedSlice, Texts};
use crate::{Kind, NodeFacts, Object, ObjectChange, ObjectKey, Update, Value};

#[derive(Debug, Default)]
pub struct ClusterState {
    services: HashMap<ServiceKey, ServiceEntry>,
    /// Which service has a slice whose name does not begin with that service's. Nearly all do, as the control
    /// plane names them so, and are found without an index.
    odd_slices: HashMap<Arc<str>, ServiceKey>,
    nodes: BTreeMap<Arc<str>, NodeFacts>,
    service_cidrs: BTreeMap<Arc<str>, Box<[IpNet]>>,
    texts: Texts,
    dirty: DirtyMarks,
    changes: ChangeCount,
    synced: [bool; Kind::ALL.len()],
}

/// A service with its slices; either may arrive first.
#[derive(Debug, Default)]
struct ServiceEntry {
    service: Option<Box<Service>>,
    /// Sorted by name.
    slices: Box<[PackedSlice]>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub services: usize,
    pub slices: usize,
    pub endpoints: usize,
}

impl ClusterState {
    /// Take in what a source says. Problems are for the operator and change nothing here.
    pub fn update(&mut self, update: Update) {
        match update {
            Update::Changes(changes) => changes.into_iter().for_each(|change| self.change(change)),
            Update::Retain(kind, paths) => self.retain(kind, &paths),
            Update::Synced(kind) => self.mark_synced(kind),
            Update::Problems { .. } => {}
        }
    }

    pub fn change(&mut self, change: ObjectChange) {
        match change {
            ObjectChange::Apply(object) => self.apply(object),
            ObjectChange::Delete(key) => self.delete(&key),
        }
    }

    pub fn apply(&mut self, object: Object) {
        let path = object.key.path;
        match object.value {
            Value::Service(service) => self.apply_service(path, service),
            Value::EndpointSlice(record) => self.apply_slice(&path, &record),
            // What a plan takes from the node the agent compares itself: only it knows the node's name.
            Value::Node(facts) => drop(self.nodes.insert(path, facts)),
            Value::ServiceCidr(cidrs) => {
                if self.service_cidrs.get(&path) != Some(&cidrs) {
                    self.service_cidrs.insert(path, cidrs);
                    self.dirty.node();
                }
            }
        }
    }

    pub fn delete(&mut self, key: &ObjectKey) {
        match key.kind {
            Kind::Service => self.delete_service(&key.path),
            Kind::EndpointSlice => self.delete_slice(&key.path),
            Kind::Node => drop(self.nodes.remove(&key.path)),
            Kind::ServiceCidr => {
                if self.service_cidrs.remove(&key.path).is_some() {
                    self.dirty.node();
                }
            }
        }
    }

    /// A complete list of one kind: whatever is not in it goes.
    pub fn retain(&mut self, kind: Kind, listed: &HashSet<Arc<str>>) {
        for path in self.paths(kind).into_iter().filter(|path| !listed.contains(path)) {
            self.delete(&ObjectKey { kind, path });
        }
    }

    fn paths(&self, kind: Kind) -> Vec<Arc<str>> {
        match kind {
            Kind::Service => self.services().cloned().collect(),
            Kind::EndpointSlice => self.slice_paths().collect(),
            Kind::Node => self.nodes.keys().cloned().collect(),
            Kind::ServiceCidr => self.service_cidrs.keys().cloned().collect(),
        }
    }

    fn apply_service(&mut self, key: ServiceKey, service: Box<Service>) {
        let entry = self.services.entry(key.clone()).or_default();
        if entry.service.as_ref() != Some(&service) {
            entry.service = Some(service);
            self.changes.services += 1;
            self.dirty.service(&key);
        }
    }

    fn delete_service(&mut self, key: &ServiceKey) {
        let Some(entry) = self.services.get_mut(key) else { return };
        if entry.service.take().is_some() {
            self.changes.services += 1;
            self.dirty.service(key);
        }
        self.forget_if_empty(key);
    }

    fn forget_if_empty(&mut self, key: &ServiceKey) {
        let empty = |entry: &ServiceEntry| entry.service.is_none() && entry.slices.is_empty();
        if self.services.get(key).is_some_and(empty) {
            self.services.remove(key);
        }
    }

    /// The first list of this kind is in.
    pub fn mark_synced(&mut self, kind: Kind) {
        if let Some(synced) = self.synced.get_mut(kind.index()) {
            *synced = true;
        }
    }

    /// Every kind's first list is in; before that nothing may be programmed.
    pub fn is_complete(&self) -> bool {
        self.synced.iter().all(|synced| *synced)
    }

    /// What changed since this was last asked.
    pub fn take_dirty(&mut self) -> DirtySet {
        self.dirty.take()
    }

    /// Every change so far; what came twice in a row counts once.
    pub fn changes(&self) -> ChangeCount {
        self.changes
    }

    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    pub fn service(&self, key: &str) -> Option<&Service> {
        self.services.get(key)?.service.as_deref()
    }

    /// About how much a service asks of the kernel: addresses, source ranges and endpoints over all of its ports. Cheap:
    /// endpoints are counted per slice, and what a plan makes of them is not known.
    pub fn weight(&self, key: &str) -> usize {
        /// A timeout that no other service has needs chains of its own, which cost more than elements.
        const AFFINITY: usize = 100;
        let Some(entry) = self.services.get(key) else { return 0 };
        let addresses = entry.service.as_ref().map_or(0, |service| {
            let balancers = service.load_balancer_ips.len();
            let addresses =
                1 + service.external_ips.len() + balancers + balancers * service.source_ranges.len();
            let affinity = service.affinity_seconds.map_or(0, |_| AFFINITY);
            service.ports.len().saturating_mul(addresses).saturating_add(affinity)
        });
        let offers =
            |slice: &PackedSlice| slice.endpoint_count().saturating_mul(self.texts.port_count(slice).max(1));
        entry.slices.iter().map(offers).fold(addresses, usize::saturating_add)
    }

    /// How many endpoints of a family the slices of a service have, whatever their state.
    pub fn endpoint_count(&self, key: &str, family: Family) -> usize {
        let slices = self.services.get(key).map(|entry| &*entry.slices).unwrap_or_default();
        slices.iter().filter(|slice| slice.family() == family).map(PackedSlice::endpoint_count).sum()
    }

    /// The slices of a service, ordered by name.
    pub fn slices(&self, key: &str) -> Vec<EndpointSlice<'_>> {
        let slices = self.services.get(key).map(|entry| &*entry.slices).unwrap_or_default();
        slices.iter().map(|slice| self.texts.view(slice)).collect()
    }

    /// The keys of all services, in no particular order.
    pub fn services(&self) -> impl Iterator<Item = &ServiceKey> {
        self.services.iter().filter(|(_, entry)| entry.service.is_some()).map(|(key, _)| key)
    }

    /// Services of which there are slices alone.
    pub fn unknown_services(&self) -> impl Iterator<Item = &ServiceKey> {
        self.services.iter().filter(|(_, entry)| entry.service.is_none()).map(|(key, _)| key)
    }

    pub fn node(&self, name: &str) -> Option<&NodeFacts> {
        self.nodes.get(name)
    }

    /// All ServiceCIDRs, ordered by the name of their object.
    pub fn service_cidrs(&self) -> Vec<IpNet> {
        self.service_cidrs.values().flatten().copied().collect()
    }

    pub fn counts(&self) -> Counts {
        let slices = || self.services.values().flat_map(|entry| &entry.slices);
        Counts {
            services: self.services().count(),
            slices: slices().count(),
            endpoints: slices().map(PackedSlice::endpoint_count).sum(),
        }
    }
}
