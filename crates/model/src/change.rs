//! One service before and after.

use std::sync::Arc;

use crate::{PortPlan, ServiceKey, ServicePlan, merged_ports};

/// One service whose plan changed. Pools are in slot order: an endpoint keeps its place while it lives.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    pub service: &'a ServiceKey,
    /// What the kernel holds.
    pub old: Option<&'a ServicePlan>,
    pub new: Option<&'a ServicePlan>,
}

impl<'a> Change<'a> {
    /// Its ports, each as it was and as it is to be.
    pub fn ports(&self) -> impl Iterator<Item = (Option<&'a Arc<PortPlan>>, Option<&'a Arc<PortPlan>>)> {
        merged_ports(ports_of(self.old), ports_of(self.new))
    }
}

/// The ports of a plan that may be absent.
pub fn ports_of(plan: Option<&ServicePlan>) -> &[Arc<PortPlan>] {
    plan.map(|plan| &*plan.ports).unwrap_or_default()
}
