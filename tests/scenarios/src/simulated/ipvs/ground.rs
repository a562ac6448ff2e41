//! The routing around IPVS, of a simulated machine. The tests of `crates/dataplane` take it from here, too.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use dataplane::ipvs::{Ground, WayIn};
use dataplane::{SyncError, TellDrift};
use ipnet::IpNet;
use model::Family;
use simulate::ipvs::SharedMachine;

#[derive(Debug)]
pub struct SimulatedGround<O> {
    machine: SharedMachine,
    /// What was laid.
    laid: [BTreeSet<IpNet>; 2],
    /// What another kube-proxy left on the device.
    pub foreign: HashSet<IpAddr>,
    /// The observer of every step of a change.
    pub onlooker: O,
}

impl<O> SimulatedGround<O> {
    pub fn new(machine: SharedMachine, onlooker: O) -> SimulatedGround<O> {
        SimulatedGround { machine, laid: Default::default(), foreign: HashSet::new(), onlooker }
    }
}

impl<O> Ground for SimulatedGround<O> {
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

    fn foreign_addresses(&mut self, family: Family) -> Result<HashSet<IpAddr>, SyncError> {
        Ok(self.foreign.iter().copied().filter(|ip| Family::of(*ip) == family).collect())
    }

    fn watch(&mut self, _: TellDrift) {}
}
