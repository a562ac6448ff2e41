//! The cluster state as the reconciler wants it: plans.

use cluster::ClusterState;
use dataplane::{Planned, Planner};
use model::{Family, NodePlan, NodePortAddresses, NodeView, ServiceKey, Settings};

pub(crate) struct ClusterPlanner<'a> {
    pub(crate) state: &'a ClusterState,
    pub(crate) node: &'a NodeView,
    pub(crate) settings: &'a Settings,
    pub(crate) nodeport_addresses: &'a NodePortAddresses,
}

impl Planner for ClusterPlanner<'_> {
    fn plan(&self, key: &ServiceKey, family: Family) -> Option<Planned> {
        let service = self.state.service(key)?;
        let slices = self.state.slices(key);
        let plan = model::plan(service, &slices, self.node, self.settings, family);
        Some(Planned { plan, created: service.created })
    }

    fn services(&self) -> Vec<ServiceKey> {
        self.state.services().cloned().collect()
    }

    fn node(&self, family: Family) -> NodePlan {
        let cidrs = self.state.service_cidrs();
        model::plan_node(self.node, self.nodeport_addresses, &cidrs, family)
    }
}
