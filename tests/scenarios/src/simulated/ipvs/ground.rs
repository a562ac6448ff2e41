//! The routing around IPVS, of a simulated machine.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use dataplane::ipvs::{Ground, WayIn};
use dataplane::{SyncError, TellDrift};
use ipnet::IpNet;
use model::Family;
use simulate::ipvs::SharedMachine;

use super::steps::Steps;
use crate::simulated::Rules;

#[derive(Debug)]
pub struct SimulatedGround {
    machine: SharedMachine,
    /// What was laid.
    laid: [BTreeSet<IpNet>; 2],
    steps: Steps,
}

impl SimulatedGround {
    pub fn new(machine: SharedMachine) -> SimulatedGround {
        let steps = Steps::of(&machine);
        SimulatedGround { machine, laid: Default::default(), steps }
    }

    /// From now on, remember what packets meet.
    pub fn begin_steps(&self) {
        self.steps.begin(self.machine.operations().1);
    }

    /// What packets met; nothing if something was made to fail meanwhile.
    pub fn steps(&self) -> Vec<Rules> {
        self.steps.take(self.machine.operations().1)
    }
}

impl Ground for SimulatedGround {
    fn lay(&mut self, family: Family, way: &WayIn) -> Result<(), SyncError> {
        self.machine.route(|routing| routing.mark |= way.local_mark).map_err(SyncError::new)?;
        let wanted: Vec<IpNet> = way.prefixes.iter().copied().collect();
        self.machine.add_local(&wanted).map_err(SyncError::new)?;
        self.laid[family.index()] = way.prefixes.clone();
        Ok(())
    }

    fn keep_only(&mut self, family: Family, way: &WayIn) -> Result<(), SyncError> {
        let kept = self.machine.route(|routing| {
            routing.mark = way.local_mark;
            routing.local.retain(|net| Family::of_net(net) != family || way.prefixes.contains(net));
        });
        kept.map_err(SyncError::new)
    }

    fn add(&mut self, prefixes: &[IpNet]) -> Result<(), SyncError> {
        if prefixes.is_empty() {
            return Ok(());
        }
        self.machine.add_local(prefixes).map_err(SyncError::new)?;
        for net in prefixes {
            self.laid[Family::of_net(net).index()].insert(*net);
        }
        Ok(())
    }

    fn remove(&mut self, prefixes: &[IpNet]) -> Result<(), SyncError> {
        if prefixes.is_empty() {
            return Ok(());
        }
        for net in prefixes {
            self.laid[Family::of_net(net).index()].remove(net);
        }
        let removed = self.machine.route(|routing| routing.local.retain(|net| !prefixes.contains(net)));
        removed.map_err(SyncError::new)
    }

    fn is_intact(&mut self, family: Family) -> bool {
        let machine = self.machine.machine();
        self.laid[family.index()].iter().all(|net| machine.routing.local.contains(net))
    }

    fn foreign_addresses(&mut self, _: Family) -> Result<HashSet<IpAddr>, SyncError> {
        Ok(HashSet::new())
    }

    fn watch(&mut self, _: TellDrift) {}
}
