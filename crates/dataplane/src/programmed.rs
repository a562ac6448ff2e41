//! How much the kernel holds, kept up to date change by change: nothing here walks all services.

use model::{PortPlan, Role, Routing, ServicePlan, Verdict};

/// What is in force for one family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Programmed {
    pub services: usize,
    /// Places in the pools of service ports; an endpoint that is in both pools of a port has two.
    pub endpoints: usize,
    /// Elements of the kernel's maps and sets that belong to services.
    pub elements: usize,
    /// Ports that drop traffic because their policy is Local and no endpoint is on this node.
    pub unserved: Unserved,
}

/// By the policy that says Local.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unserved {
    pub internal: usize,
    pub external: usize,
}

impl Programmed {
    pub(crate) fn add(&mut self, plan: &ServicePlan) {
        let (endpoints, unserved) = share(plan);
        self.services += 1;
        self.endpoints += endpoints;
        self.unserved.internal += unserved.internal;
        self.unserved.external += unserved.external;
    }

    pub(crate) fn remove(&mut self, plan: &ServicePlan) {
        let (endpoints, unserved) = share(plan);
        self.services = self.services.saturating_sub(1);
        self.endpoints = self.endpoints.saturating_sub(endpoints);
        self.unserved.internal = self.unserved.internal.saturating_sub(unserved.internal);
        self.unserved.external = self.unserved.external.saturating_sub(unserved.external);
    }
}

fn share(plan: &ServicePlan) -> (usize, Unserved) {
    let endpoints = plan.ports.iter().map(|port| port.cluster_pool.len() + port.local_pool.len()).sum();
    let count = |drops: fn(&PortPlan) -> bool| plan.ports.iter().filter(|port| drops(port)).count();
    (endpoints, Unserved { internal: count(drops_internal), external: count(drops_external) })
}

fn drops_internal(port: &PortPlan) -> bool {
    let mut inside = port.destinations.iter().filter(|destination| destination.role == Role::ClusterIp);
    inside.any(|destination| matches!(destination.routing, Routing::Same(Verdict::Drop, _)))
}

fn drops_external(port: &PortPlan) -> bool {
    let mut outside = port.destinations.iter().filter(|destination| destination.role != Role::ClusterIp);
    outside.any(|destination| matches!(destination.routing, Routing::Split { outside: Verdict::Drop, .. }))
}
