//! The seam between what knows the objects and what writes the rules.

use crate::{Family, NodePlan, ServiceKey, ServicePlan};

/// Where plans come from: the cluster state, seen through the model.
pub trait Planner {
    /// `None` if there is no such service.
    fn plan(&self, service: &ServiceKey, family: Family) -> Option<Planned>;
    /// About how much the service asks of the kernel. Whoever can say it without planning should.
    fn weight(&self, service: &ServiceKey) -> usize {
        let weight = |family| self.plan(service, family).map_or(0, |planned| planned.plan.weight());
        Family::BOTH.map(weight).into_iter().max().unwrap_or_default()
    }
    /// Every service there is.
    fn services(&self) -> Vec<ServiceKey>;
    fn node(&self, family: Family) -> NodePlan;
}

/// A plan, and what settles disputes about it.
#[derive(Clone, Debug, Default)]
pub struct Planned {
    pub plan: ServicePlan,
    /// Seconds since the epoch; settles who owns an address that two services claim.
    pub created: i64,
}
