//! A mode that was chosen at run time is a [`Backend`] like any other.

use std::collections::HashMap;

use model::{Change, Family, NodePlan, ServiceKey, ServicePlan};

use crate::backend::{Backend, Committed, Setup, SyncError};

impl Backend for Box<dyn Backend + Send> {
    fn base(&self) -> Option<&dyn Backend> {
        Some(&**self)
    }

    fn base_mut(&mut self) -> Option<&mut dyn Backend> {
        Some(&mut **self)
    }

    fn rewrite(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> Result<Committed, SyncError> {
        (**self).rewrite(family, plans, node)
    }

    fn apply(
        &mut self,
        family: Family,
        changes: &[Change<'_>],
        node: (&NodePlan, &NodePlan),
    ) -> Result<Committed, SyncError> {
        (**self).apply(family, changes, node)
    }

    fn configure(&mut self, family: Family, setup: &Setup) -> bool {
        (**self).configure(family, setup)
    }

    fn is_intact(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> bool {
        (**self).is_intact(family, plans, node)
    }

    fn cleanup(&mut self, family: Family) -> Result<(), SyncError> {
        (**self).cleanup(family)
    }
}
