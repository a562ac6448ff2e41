//! Where slices are stored: with their service, sorted by name, found again by nothing but their own name.

use std::sync::Arc;

use model::ServiceKey;

use super::{ClusterState, ServiceEntry};
use crate::packed::PackedSlice;
use crate::{SliceRecord, Trigger};

impl ClusterState {
    pub(super) fn apply_slice(&mut self, path: &Arc<str>, record: &SliceRecord) {
        // Relabelled: the old service loses it, the new one gains it.
        if self.home(path).is_some_and(|home| home != record.service) {
            self.delete_slice(path);
        }
        let packed = self.texts.pack(slice_name(path), record);
        if self.store_slice(path, &record.service, packed) {
            self.changes.slices += 1;
            self.dirty.service(&record.service);
            if let Some(millis) = record.triggered_ms {
                let (service, family) = (record.service.clone(), record.family);
                self.dirty.trigger(Trigger { service, family, millis });
            }
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

    pub(super) fn delete_slice(&mut self, path: &Arc<str>) {
        let Some(home) = self.home(path) else { return };
        self.odd_slices.remove(path);
        if let Some(entry) = self.services.get_mut(&home)
            && let Ok(at) = entry.position(slice_name(path))
        {
            let mut slices = std::mem::take(&mut entry.slices).into_vec();
            self.texts.release(&slices.remove(at));
            entry.slices = slices.into();
            self.changes.slices += 1;
            self.dirty.service(&home);
        }
        self.forget_if_empty(&home);
    }

    pub(super) fn slice_paths(&self) -> impl Iterator<Item = Arc<str>> {
        self.services.iter().flat_map(|(key, entry)| {
            let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
            entry.slices.iter().map(move |slice| format!("{namespace}/{}", slice.name).into())
        })
    }
}

impl ServiceEntry {
    /// Where the slice of this name is, or belongs.
    fn position(&self, name: &str) -> Result<usize, usize> {
        self.slices.binary_search_by(|slice| (*slice.name).cmp(name))
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
    use crate::{EndpointRecord, Kind, Object, ObjectKey, Value};

    #[test]
    fn texts_go_with_the_last_endpoint_that_uses_them() {
        let mut state = ClusterState::default();
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
