//! The cluster state as the reconciler wants it: this node, and plans.

use std::net::IpAddr;

use model::{
    Family, KnownEndpoint, NodePlan, NodePortAddresses, NodeView, OnLoopback, Planned, Planner, Pool,
    PortPlan, Service, ServiceKey, Settings,
};

use crate::{ClusterState, NodeFacts};

/// Plans from the cluster state.
pub struct ClusterPlanner<'a> {
    pub state: &'a ClusterState,
    pub node: &'a NodeView,
    pub settings: &'a Settings,
    pub nodeport_addresses: &'a NodePortAddresses,
    /// How node ports answer on loopback addresses.
    pub nodeports_on_loopback: OnLoopback,
}

impl Planner for ClusterPlanner<'_> {
    fn plan(&self, key: &ServiceKey, family: Family) -> Option<Planned> {
        let service = self.state.service(key)?;
        let slices = self.state.slices(key);
        let plan = model::plan(service, &slices, self.node, self.settings, family);
        Some(Planned { plan, created: service.created })
    }

    fn weight(&self, key: &ServiceKey) -> usize {
        self.state.weight(key)
    }

    fn services(&self) -> Vec<ServiceKey> {
        self.state.services().cloned().collect()
    }

    fn service(&self, key: &ServiceKey) -> Option<&Service> {
        self.state.service(key)
    }

    fn endpoints(
        &self,
        key: &ServiceKey,
        family: Family,
        port: &PortPlan,
        pool: Pool,
        most: usize,
    ) -> (usize, Vec<KnownEndpoint>) {
        let slices = self.state.slices(key);
        let explained = model::explain_endpoints(port, pool, &slices, self.node, family);
        let count = explained.len();
        let known = explained.into_iter().take(most).map(|one| KnownEndpoint {
            ip: one.ip,
            port: one.port,
            node: one.node.map(Into::into),
            used: one.used,
        });
        (count, known.collect())
    }

    fn node(&self, family: Family) -> NodePlan {
        let cidrs = self.state.service_cidrs();
        let loopback = self.nodeports_on_loopback;
        model::plan_node(self.node, self.nodeport_addresses, loopback, &cidrs, family)
    }
}

/// This node as its Node object, the kernel and the operator describe it.
pub fn observe_node(facts: Option<&NodeFacts>, name: &str, addresses: &[IpAddr]) -> NodeView {
    let told = facts.map(|facts| facts.primary).filter(|primary| *primary != [None; 2]);
    NodeView {
        name: name.to_owned(),
        zone: facts.and_then(|facts| facts.zone.as_deref()).map(str::to_owned),
        primary: told.unwrap_or_else(|| Family::BOTH.map(|family| model::default_primary(addresses, family))),
        addresses: addresses.to_vec(),
    }
}
