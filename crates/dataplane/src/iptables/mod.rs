//! iptables mode: services as chains of upstream's names, found through trees of addresses and ports.

mod cleanup;
mod dialect;
mod family;
mod frame;
mod key;
mod names;
mod rule;
pub(crate) mod saved;
mod script;
mod service;
mod state;
mod tree;
mod watch;

use std::collections::HashMap;

use kernel::iptables::Tables;
use model::{Family, LocalDetector, NodePlan, ServiceKey, ServicePlan};

use crate::backend::{Backend, Change, Committed, SyncError};
use dialect::Dialect;
use family::FamilyTables;

pub use cleanup::{removal, removal_of_ipvs};
pub use frame::CANARY;

/// What the rules depend on besides the services.
#[derive(Clone, Debug)]
pub struct Setup {
    pub detector: LocalDetector,
    /// The packet mark that asks for masquerade, as a value (bit 14: 0x4000).
    pub masquerade_mark: u32,
    /// Drop packets that conntrack finds invalid.
    pub drop_invalid: bool,
    /// The nfacct objects that are there, in which the kernel counts.
    pub counters: Counters,
}

/// Which nfacct objects are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// [`INVALID_COUNTER`].
    pub invalid: bool,
    /// [`LOCALHOST_COUNTER`].
    pub localhost: bool,
}

/// Counts packets dropped because conntrack found them invalid.
pub const INVALID_COUNTER: &str = "ct_state_invalid_dropped_pkts";
/// Counts packets to node ports by way of 127.0.0.1.
pub const LOCALHOST_COUNTER: &str = "localhost_nps_accepted_pkts";

/// The iptables data plane over real or simulated tables.
pub struct Iptables<T> {
    families: [FamilyTables<T>; 2],
}

impl<T: Tables> Iptables<T> {
    /// `tables` by [`Family::index`]; a family without tools has none, which is an error once it has services.
    pub fn new(tables: [Option<T>; 2], setup: &Setup) -> Iptables<T> {
        let [v4, v6] = tables;
        let family = |family, tables: Option<T>| {
            let random_fully = tables.as_ref().is_some_and(Tables::has_random_fully);
            let Setup { detector, masquerade_mark, drop_invalid, counters } = setup.clone();
            let dialect = Dialect { family, detector, masquerade_mark, drop_invalid, counters, random_fully };
            FamilyTables::new(tables, dialect)
        };
        Iptables { families: [family(Family::V4, v4), family(Family::V6, v6)] }
    }

    /// Which nfacct objects there are from now on, for the next full sync.
    pub fn count_in(&mut self, family: Family, counters: Counters) {
        self.families[family.index()].dialect.counters = counters;
    }

    pub fn tables(&mut self, family: Family) -> Option<&mut T> {
        self.families[family.index()].tables.as_mut()
    }
}

impl<T: Tables> Iptables<T> {
    /// The nf_tables variant counts the writes to both families as one: what one writes must not alarm the other.
    fn write<R>(&mut self, family: Family, write: impl FnOnce(&mut FamilyTables<T>) -> R) -> R {
        let (outcome, written) = self.families[family.index()].written(write);
        self.families[1 - family.index()].note_other(&written);
        outcome
    }
}

impl<T: Tables> Backend for Iptables<T> {
    fn rewrite(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> Result<Committed, SyncError> {
        self.write(family, |tables| tables.rewrite(plans, node))
    }

    fn apply(
        &mut self,
        family: Family,
        changes: &[Change<'_>],
        node: (&NodePlan, &NodePlan),
    ) -> Result<Committed, SyncError> {
        self.write(family, |tables| tables.apply(changes, node))
    }

    fn detect_local(&mut self, family: Family, detector: &LocalDetector) -> bool {
        let dialect = &mut self.families[family.index()].dialect;
        let before = dialect.if_pod(true);
        dialect.detector = detector.clone();
        dialect.if_pod(true) != before
    }

    fn masquerade_by(&mut self, family: Family, mark: u32) -> bool {
        std::mem::replace(&mut self.families[family.index()].dialect.masquerade_mark, mark) != mark
    }

    fn drop_invalid(&mut self, family: Family, on: bool) -> bool {
        std::mem::replace(&mut self.families[family.index()].dialect.drop_invalid, on) != on
    }

    fn is_intact(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> bool {
        self.families[family.index()].is_intact(plans, node)
    }

    fn cleanup(&mut self, family: Family) -> Result<(), SyncError> {
        self.families[family.index()].cleanup()
    }
}
