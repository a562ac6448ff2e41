//! Which services changed since the kernel last followed.
//!
//! Reading the marks does not clear them: they are cleared by naming what was read, after it is committed.
//! So a failed commit loses nothing, and neither does a change that came in while the commit ran.

use std::collections::HashMap;

use model::{Family, ServiceKey};

/// What there is to do, as of one moment. Give it back to `clear_dirty` once it is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirtySet {
    /// Services whose plan may have changed (or which are gone), sorted.
    pub services: Vec<ServiceKey>,
    /// The ServiceCIDRs changed, which are of no service.
    pub node: bool,
    pub triggers: Vec<Trigger>,
    as_of: u64,
}

/// Why endpoints changed: something happened to a pod or a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    pub service: ServiceKey,
    pub family: Family,
    /// When the control plane saw it, in milliseconds since the epoch.
    pub millis: i64,
}

/// How many changes there were since the start that alter what is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeCount {
    pub services: u64,
    pub slices: u64,
}

impl DirtySet {
    pub fn is_empty(&self) -> bool {
        self.services.is_empty() && !self.node
    }
}

#[derive(Debug, Default)]
pub(crate) struct DirtyMarks {
    /// Counts marks, so that what is older than a reading can be told from what is newer.
    clock: u64,
    services: HashMap<ServiceKey, u64>,
    node: Option<u64>,
    triggers: Vec<(u64, Trigger)>,
}

impl DirtyMarks {
    pub(crate) fn service(&mut self, key: &ServiceKey) {
        self.clock += 1;
        self.services.insert(key.clone(), self.clock);
    }

    pub(crate) fn node(&mut self) {
        self.clock += 1;
        self.node = Some(self.clock);
    }

    pub(crate) fn trigger(&mut self, trigger: Trigger) {
        self.triggers.push((self.clock, trigger));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.services.is_empty() && self.node.is_none()
    }

    pub(crate) fn read(&self) -> DirtySet {
        let mut services: Vec<ServiceKey> = self.services.keys().cloned().collect();
        services.sort_unstable();
        DirtySet {
            services,
            node: self.node.is_some(),
            triggers: self.triggers.iter().map(|(_, trigger)| trigger.clone()).collect(),
            as_of: self.clock,
        }
    }

    pub(crate) fn clear(&mut self, done: &DirtySet) {
        for key in &done.services {
            if self.services.get(key).is_some_and(|marked| *marked <= done.as_of) {
                self.services.remove(key);
            }
        }
        self.node = self.node.filter(|marked| *marked > done.as_of);
        self.triggers.retain(|(marked, _)| *marked > done.as_of);
        // The first list marks everything; its room is not needed again.
        if self.services.len() * 8 < self.services.capacity() {
            self.services.shrink_to_fit();
            self.triggers.shrink_to_fit();
        }
    }
}
