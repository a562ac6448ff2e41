//! Plans for the one node there is, with the agent's default settings.

use cluster::ClusterState;
use dataplane::{Planned, Planner};
use model::{Family, NodePlan, NodePortAddresses, NodeView, ServiceKey, Settings};

pub(super) struct Plans<'a> {
    pub(super) state: &'a ClusterState,
    pub(super) node: &'a NodeView,
}

impl Planner for Plans<'_> {
    fn plan(&self, key: &ServiceKey, family: Family) -> Option<Planned> {
        let service = self.state.service(key)?;
        let (slices, settings) = (self.state.slices(key), Settings::default());
        let plan = model::plan(service, &slices, self.node, &settings, family);
        Some(Planned { plan, created: service.created })
    }

    fn services(&self) -> Vec<ServiceKey> {
        self.state.services().cloned().collect()
    }

    fn node(&self, family: Family) -> NodePlan {
        let cidrs = self.state.service_cidrs();
        model::plan_node(self.node, &NodePortAddresses::Primary, false, &cidrs, family)
    }
}
