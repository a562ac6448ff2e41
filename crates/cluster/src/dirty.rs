//! Which services changed since this was last asked. The caller that takes the marks keeps them until the kernel follows.

use std::collections::HashSet;

use model::{Family, ServiceKey};

/// What there is to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirtySet {
    /// Services whose plan may have changed (or which are gone), sorted.
    pub services: Vec<ServiceKey>,
    /// The ServiceCIDRs changed, which are of no service.
    pub node: bool,
    pub triggers: Vec<Trigger>,
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
    services: HashSet<ServiceKey>,
    node: bool,
    triggers: Vec<Trigger>,
}

impl DirtyMarks {
    pub(crate) fn service(&mut self, key: &ServiceKey) {
        self.services.insert(key.clone());
    }

    pub(crate) fn node(&mut self) {
        self.node = true;
    }

    pub(crate) fn trigger(&mut self, trigger: Trigger) {
        self.triggers.push(trigger);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.services.is_empty() && !self.node
    }

    pub(crate) fn take(&mut self) -> DirtySet {
        let DirtyMarks { services, node, triggers } = std::mem::take(self);
        let mut services: Vec<ServiceKey> = services.into_iter().collect();
        services.sort_unstable();
        DirtySet { services, node, triggers }
    }
}
