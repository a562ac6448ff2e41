//! Everything the sources said, packed, and which services that touched.
//!
//! Pure: objects go in one at a time, plans are made from the views that come out. The order in which
//! objects arrive leaves no trace.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use ipnet::IpNet;
use model::{EndpointSlice, Service, ServiceKey};

use crate::dirty::{DirtyMarks, DirtySet};
use crate::packed::{PackedSlice, Texts};
use crate::{Change, Kind, NodeFacts, Object, ObjectKey, SliceRecord, Update, Value};

#[derive(Debug, Default)]
pub struct ClusterState {
    /// The node the agent runs on; the facts of others do not touch plans.
    node_name: Box<str>,
    services: HashMap<ServiceKey, ServiceEntry>,
    /// Which service has a slice whose name does not begin with that service's. Nearly all do, as the control
    /// plane names them so, and are found without an index.
    odd_slices: HashMap<Arc<str>, ServiceKey>,
    nodes: BTreeMap<Arc<str>, NodeFacts>,
    service_cidrs: BTreeMap<Arc<str>, Box<[IpNet]>>,
    texts: Texts,
    dirty: DirtyMarks,
    synced: [bool; Kind::ALL.len()],
}

/// A service with its slices; either may arrive first.
#[derive(Debug, Default)]
struct ServiceEntry {
    service: Option<Box<Service>>,
    /// Sorted by name.
    slices: Box<[PackedSlice]>,
}

impl ServiceEntry {
    /// Where the slice of this name is, or belongs.
    fn position(&self, name: &str) -> Result<usize, usize> {
        self.slices.binary_search_by(|slice| (*slice.name).cmp(name))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub services: usize,
    pub slices: usize,
    pub endpoints: usize,
}

impl ClusterState {
    pub fn new(node_name: &str) -> ClusterState {
        ClusterState { node_name: node_name.into(), ..ClusterState::default() }
    }

    /// Take in what a source says. Problems are for the operator and change nothing here.
    pub fn update(&mut self, update: Update) {
        match update {
            Update::Replace(kind, objects) => self.replace(kind, objects),
            Update::Changes(changes) => changes.into_iter().for_each(|change| self.change(change)),
            Update::Synced(kind) => self.mark_synced(kind),
            Update::Problems(_) => {}
        }
    }

    pub fn change(&mut self, change: Change) {
        match change {
            Change::Apply(object) => self.apply(object),
            Change::Delete(key) => self.delete(&key),
        }
    }

    pub fn apply(&mut self, object: Object) {
        let path = object.key.path;
        match object.value {
            Value::Service(service) => self.apply_service(path, service),
            Value::EndpointSlice(record) => self.apply_slice(&path, &record),
            Value::Node(facts) => self.set_node(path, Some(facts)),
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
            Kind::Node => self.set_node(key.path.clone(), None),
            Kind::ServiceCidr => {
                if self.service_cidrs.remove(&key.path).is_some() {
                    self.dirty.node();
                }
            }
        }
    }

    /// A complete list of one kind: whatever is not in it goes.
    pub fn replace(&mut self, kind: Kind, objects: Vec<Object>) {
        let listed: HashSet<Arc<str>> = objects
            .iter()
            .filter(|object| object.key.kind == kind)
            .map(|object| object.key.path.clone())
            .collect();
        for path in self.paths(kind).into_iter().filter(|path| !listed.contains(path)) {
            self.delete(&ObjectKey { kind, path });
        }
        objects.into_iter().for_each(|object| self.apply(object));
    }

    fn paths(&self, kind: Kind) -> Vec<Arc<str>> {
        match kind {
            Kind::Service => self.services().cloned().collect(),
            Kind::EndpointSlice => self.slice_paths().collect(),
            Kind::Node => self.nodes.keys().cloned().collect(),
            Kind::ServiceCidr => self.service_cidrs.keys().cloned().collect(),
        }
    }

    fn slice_paths(&self) -> impl Iterator<Item = Arc<str>> {
        self.services.iter().flat_map(|(key, entry)| {
            let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
            entry.slices.iter().map(move |slice| format!("{namespace}/{}", slice.name).into())
        })
    }

    fn apply_service(&mut self, key: ServiceKey, service: Box<Service>) {
        let entry = self.services.entry(key.clone()).or_default();
        if entry.service.as_ref() != Some(&service) {
            entry.service = Some(service);
            self.dirty.service(&key);
        }
    }

    fn delete_service(&mut self, key: &ServiceKey) {
        let Some(entry) = self.services.get_mut(key) else { return };
        if entry.service.take().is_some() {
            self.dirty.service(key);
        }
        self.forget_if_empty(key);
    }

    fn apply_slice(&mut self, path: &Arc<str>, record: &SliceRecord) {
        // Relabelled: the old service loses it, the new one gains it.
        if self.home(path).is_some_and(|home| home != record.service) {
            self.delete_slice(path);
        }
        let packed = self.texts.pack(slice_name(path), record);
        if self.store_slice(path, &record.service, packed) {
            self.dirty.service(&record.service);
            record.triggered_ms.into_iter().for_each(|millis| self.dirty.trigger(millis));
        }
    }

    /// The service under which a slice is stored.
    fn home(&self, path: &str) -> Option<ServiceKey> {
        let name = slice_name(path);
        let mut candidates = path.rmatch_indices('-').filter_map(|(end, _)| path.get(..end));
        let regular = candidates.find_map(|service| {
            self.services.get_key_value(service).filter(|(_, entry)| entry.position(name).is_ok())
        });
        regular.map(|(key, _)| key).or_else(|| self.odd_slices.get(path)).cloned()
    }

    /// Put a slice into its place; false if the same one is already there.
    fn store_slice(&mut self, path: &Arc<str>, service: &ServiceKey, packed: PackedSlice) -> bool {
        let entry = self.services.entry(service.clone()).or_default();
        match entry.position(&packed.name) {
            Ok(at) => {
                let Some(stored) = entry.slices.get_mut(at) else { return false };
                let changed = *stored != packed;
                // Either way one of the two goes, and with it what it held.
                let gone = std::mem::replace(stored, packed);
                self.texts.release(&gone);
                changed
            }
            Err(at) => {
                let mut slices = std::mem::take(&mut entry.slices).into_vec();
                slices.reserve_exact(1);
                slices.insert(at, packed);
                entry.slices = slices.into();
                if !is_regular(path, service) {
                    self.odd_slices.insert(path.clone(), service.clone());
                }
                true
            }
        }
    }

    fn delete_slice(&mut self, path: &Arc<str>) {
        let Some(home) = self.home(path) else { return };
        self.odd_slices.remove(path);
        if let Some(entry) = self.services.get_mut(&home)
            && let Ok(at) = entry.position(slice_name(path))
        {
            let mut slices = std::mem::take(&mut entry.slices).into_vec();
            self.texts.release(&slices.remove(at));
            entry.slices = slices.into();
            self.dirty.service(&home);
        }
        self.forget_if_empty(&home);
    }

    fn forget_if_empty(&mut self, key: &ServiceKey) {
        let empty = |entry: &ServiceEntry| entry.service.is_none() && entry.slices.is_empty();
        if self.services.get(key).is_some_and(empty) {
            self.services.remove(key);
        }
    }

    fn set_node(&mut self, path: Arc<str>, facts: Option<NodeFacts>) {
        let old = match facts.clone() {
            Some(facts) => self.nodes.insert(path.clone(), facts),
            None => self.nodes.remove(&path),
        };
        if *path != *self.node_name || old == facts {
            return;
        }
        self.dirty.node();
        // The zone picks endpoints, the addresses decide over source ranges: any plan may change.
        let in_plans =
            |facts: Option<&NodeFacts>| facts.map(|f| (f.zone.clone(), f.primary)).unwrap_or_default();
        if in_plans(old.as_ref()) != in_plans(facts.as_ref()) {
            let keys: Vec<ServiceKey> = self.services().cloned().collect();
            keys.iter().for_each(|key| self.dirty.service(key));
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

    /// What changed and was not cleared yet.
    pub fn dirty(&self) -> DirtySet {
        self.dirty.read()
    }

    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The kernel follows what `done` named. Changes since it was read stay marked.
    pub fn clear_dirty(&mut self, done: &DirtySet) {
        self.dirty.clear(done);
    }

    pub fn service(&self, key: &str) -> Option<&Service> {
        self.services.get(key)?.service.as_deref()
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

fn slice_name(path: &str) -> &str {
    path.split_once('/').map_or(path, |(_, name)| name)
}

/// Named as the control plane names slices: after its service, with a dash and a suffix.
fn is_regular(path: &str, service: &str) -> bool {
    path.strip_prefix(service).is_some_and(|rest| rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use model::{Family, Hints, Protocol, SlicePort};

    use super::*;
    use crate::EndpointRecord;

    #[test]
    fn texts_go_with_the_last_endpoint_that_uses_them() {
        let mut state = ClusterState::new("node-1");
        let endpoint = |n: u8| EndpointRecord {
            ip: Ipv4Addr::new(10, 0, 0, n).into(),
            ready: true,
            serving: true,
            terminating: false,
            node: Some(format!("node-{n}").into()),
            hints: Some(Hints { zones: Box::new(["a".into()]), nodes: Box::default() }),
        };
        let slice = |endpoints: Vec<EndpointRecord>| Object {
            key: ObjectKey::new(Kind::EndpointSlice, "default", "web-1"),
            value: Value::EndpointSlice(SliceRecord {
                service: "default/web".into(),
                family: Family::V4,
                ports: Box::new([SlicePort { name: "".into(), protocol: Protocol::Tcp, port: 80 }]),
                endpoints,
                triggered_ms: None,
            }),
        };
        state.apply(slice((0..20).map(endpoint).collect()));
        assert_eq!(state.texts.sizes(), [20, 1, 1]);
        state.apply(slice((19..21).map(endpoint).collect()));
        state.apply(slice((19..21).map(endpoint).collect()));
        assert_eq!(state.texts.sizes(), [2, 1, 1]);
        state.delete(&ObjectKey::new(Kind::EndpointSlice, "default", "web-1"));
        assert_eq!(state.texts.sizes(), [0, 0, 0]);
        assert!(state.services.is_empty());
    }
}
