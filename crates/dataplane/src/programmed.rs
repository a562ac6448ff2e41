//! How much the kernel holds, kept up to date change by change: nothing here walks all services.

use model::{PortPlan, Role, Routing, ServicePlan, Verdict, merged_ports, ports_of};

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
    /// One plan takes the place of another; either may be absent. Ports that are as they were are not looked into.
    pub(crate) fn replace(&mut self, old: Option<&ServicePlan>, new: Option<&ServicePlan>) {
        self.services =
            (self.services + usize::from(new.is_some())).saturating_sub(usize::from(old.is_some()));
        for (before, after) in
            merged_ports(ports_of(old), ports_of(new)).filter(|(before, after)| before != after)
        {
            after.into_iter().for_each(|port| self.count(port, usize::saturating_add));
            before.into_iter().for_each(|port| self.count(port, usize::saturating_sub));
        }
    }

    fn count(&mut self, port: &PortPlan, step: fn(usize, usize) -> usize) {
        self.endpoints = step(self.endpoints, port.cluster_pool.len() + port.local_pool.len());
        self.unserved.internal = step(self.unserved.internal, usize::from(drops_internal(port)));
        self.unserved.external = step(self.unserved.external, usize::from(drops_external(port)));
    }
}

fn drops_internal(port: &PortPlan) -> bool {
    let mut inside = port.destinations.iter().filter(|destination| destination.role == Role::ClusterIp);
    inside.any(|destination| matches!(destination.routing, Routing::Same(Verdict::Drop, _)))
}

fn drops_external(port: &PortPlan) -> bool {
    let mut outside = port.destinations.iter().filter(|destination| destination.role != Role::ClusterIp);
    outside.any(|destination| matches!(destination.routing, Routing::Split { outside: Verdict::Drop, .. }))
}
