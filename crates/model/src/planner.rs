//! The seam between what knows the objects and what writes the rules.

use std::net::IpAddr;

use crate::{Family, NodePlan, NotUsed, Pool, PortPlan, Service, ServiceKey, ServicePlan};

/// Where plans come from: the cluster state, seen through the model.
pub trait Planner {
    /// `None` if there is no such service.
    fn plan(&self, service: &ServiceKey, family: Family) -> Option<Planned>;
    /// About how much the service asks of the kernel. Override it where this is known without planning.
    fn weight(&self, service: &ServiceKey) -> usize {
        let weight = |family| self.plan(service, family).map_or(0, |planned| planned.plan.weight());
        Family::BOTH.map(weight).into_iter().max().unwrap_or_default()
    }
    /// Every service there is.
    fn services(&self) -> Vec<ServiceKey>;
    fn node(&self, family: Family) -> NodePlan;

    /// The service itself, for explanations.
    fn service(&self, _service: &ServiceKey) -> Option<&Service> {
        None
    }

    /// The endpoints that are known of a port, as [`explain_endpoints`](crate::explain_endpoints) has them: how many, and
    /// the first of them, at most `_most`.
    fn endpoints(
        &self,
        _service: &ServiceKey,
        _family: Family,
        _port: &PortPlan,
        _pool: Pool,
        _most: usize,
    ) -> (usize, Vec<KnownEndpoint>) {
        (0, Vec::new())
    }
}

/// An endpoint of a service, used or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownEndpoint {
    pub ip: IpAddr,
    /// `None` if its slice has no such port.
    pub port: Option<u16>,
    pub node: Option<Box<str>>,
    pub used: Result<(), NotUsed>,
}

/// A plan, and what settles disputes about it.
#[derive(Clone, Debug, Default)]
pub struct Planned {
    pub plan: ServicePlan,
    /// Seconds since the epoch; settles who owns an address that two services claim.
    pub created: i64,
}
