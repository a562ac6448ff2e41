//! A mode that was chosen at run time is a [`Backend`] like any other.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use model::{Change, Family, Fate, NodePlan, Protocol, ServiceKey, ServicePlan};

use crate::backend::{Backend, Committed, Setup, SyncError};
use crate::check_pace::Looks;
use crate::drift::TellDrift;
use crate::inspection::{Inspected, Look};
use crate::nftables::{Pin, PinSweep};

impl Backend for Box<dyn Backend + Send> {
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

    fn is_rewritten_for(&self, before: &NodePlan, after: &NodePlan) -> bool {
        (**self).is_rewritten_for(before, after)
    }

    fn works_in_pieces(&self) -> bool {
        (**self).works_in_pieces()
    }

    fn interim(&self, change: &Change<'_>) -> Option<ServicePlan> {
        (**self).interim(change)
    }

    fn take_sweeps(&mut self, family: Family) -> Vec<PinSweep> {
        (**self).take_sweeps(family)
    }

    fn sweep(&mut self, sweep: &PinSweep) -> Result<usize, SyncError> {
        (**self).sweep(sweep)
    }

    fn forget(&mut self, family: Family, pins: &[Pin]) -> Result<usize, SyncError> {
        (**self).forget(family, pins)
    }

    fn doors(&self, family: Family) -> &[SocketAddr] {
        (**self).doors(family)
    }

    fn take_unserved(&mut self) -> Vec<(ServiceKey, &'static str)> {
        (**self).take_unserved()
    }

    fn configure(&mut self, family: Family, setup: &Setup) -> bool {
        (**self).configure(family, setup)
    }

    fn watch(&mut self, tell: TellDrift) {
        (**self).watch(tell);
    }

    fn looks(&mut self, sync_period: Duration) -> Looks {
        (**self).looks(sync_period)
    }

    fn damage_found(&self) -> &'static str {
        (**self).damage_found()
    }

    fn is_intact(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> bool {
        (**self).is_intact(family, plans, node)
    }

    fn inspect(&mut self, family: Family, inspected: &Inspected<'_>) -> Look {
        (**self).inspect(family, inspected)
    }

    fn fate(&self, protocol: Protocol, planned: Fate) -> Fate {
        (**self).fate(protocol, planned)
    }

    fn inspect_all(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> Option<Look> {
        (**self).inspect_all(family, plans, node)
    }

    fn cleanup(&mut self, family: Family) -> Result<(), SyncError> {
        (**self).cleanup(family)
    }
}
