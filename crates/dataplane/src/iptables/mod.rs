//! iptables mode: services as chains of upstream's names, found through trees of addresses and ports.

mod cleanup;

use std::collections::HashMap;

use kernel::iptables::Tables;
use model::{Family, LocalDetector, NodePlan, ServiceKey, ServicePlan};

use crate::backend::{Backend, Change, Committed, SyncError};

pub use cleanup::removal;

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
    tables: [Option<T>; 2],
    setup: Setup,
}

impl<T: Tables> Iptables<T> {
    /// `tables` by [`Family::index`]; a family without tools has none, which is an error once it has services.
    pub fn new(tables: [Option<T>; 2], setup: Setup) -> Iptables<T> {
        Iptables { tables, setup }
    }

    pub fn tables(&mut self, family: Family) -> Option<&mut T> {
        self.tables[family.index()].as_mut()
    }
}

impl<T: Tables> Backend for Iptables<T> {
    fn rewrite(
        &mut self,
        family: Family,
        _: &HashMap<ServiceKey, ServicePlan>,
        _: &NodePlan,
    ) -> Result<Committed, SyncError> {
        Err(SyncError::NoTools(family))
    }

    fn apply(
        &mut self,
        family: Family,
        _: &[Change<'_>],
        _: (&NodePlan, &NodePlan),
    ) -> Result<Committed, SyncError> {
        Err(SyncError::NoTools(family))
    }

    fn detect_local(&mut self, _: Family, detector: &LocalDetector) -> bool {
        self.setup.detector = detector.clone();
        true
    }

    fn masquerade_by(&mut self, _: Family, mark: u32) -> bool {
        std::mem::replace(&mut self.setup.masquerade_mark, mark) != mark
    }

    fn is_intact(&mut self, _: Family, _: &HashMap<ServiceKey, ServicePlan>, _: &NodePlan) -> bool {
        true
    }

    fn cleanup(&mut self, _: Family) -> Result<(), SyncError> {
        Ok(())
    }
}
