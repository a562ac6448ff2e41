//! The ports of a plan that may be absent.

use model::{PortPlan, ServicePlan};

pub(crate) fn ports_of(plan: Option<&ServicePlan>) -> &[PortPlan] {
    plan.map(|plan| &*plan.ports).unwrap_or_default()
}
