//! The ports of a plan that may be absent.

use std::sync::Arc;

use model::{PortPlan, ServicePlan};

pub(crate) fn ports_of(plan: Option<&ServicePlan>) -> &[Arc<PortPlan>] {
    plan.map(|plan| &*plan.ports).unwrap_or_default()
}
