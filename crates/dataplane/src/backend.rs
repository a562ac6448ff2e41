//! What a proxy mode offers to the reconciler.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::check_pace::Looks;
use crate::drift::TellDrift;
use crate::inspection::{Inspected, Inspection, Look};
use crate::nftables::{Pin, PinSweep};
use crate::pieces::MOST_TURNED;
use crate::shortfall::Shortfall;
use model::{Change, Family, Fate, LocalDetector, ModeSettings, NodePlan, Protocol, ServiceKey, ServicePlan};

/// Lets connections go on until then, and cuts off the rest. From any thread: the one with the backend may be busy.
pub type Farewell = Box<dyn FnOnce(Instant) + Send>;

/// What a commit took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    pub bytes: usize,
    /// Elements of services that the kernel holds now.
    pub elements: usize,
    /// How long it took to know what to send.
    pub rendering: Duration,
    /// Where rules are what services are made of.
    pub rules: RuleCount,
}

/// Rules of ours by table, filter and nat ([`kernel::iptables::Table`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCount {
    pub total: [usize; 2],
    /// Of these, what this commit wrote.
    pub written: [usize; 2],
}

/// What the rules depend on besides the services and the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// How traffic of this node's pods is recognised.
    pub detector: LocalDetector,
    /// The packet mark that asks for masquerade, as a value (bit 14: 0x4000).
    pub masquerade_mark: u32,
    /// Drop packets that conntrack finds invalid, in modes that look at that.
    pub drop_invalid: bool,
    /// What only single modes read.
    pub of_mode: ModeSettings,
}

/// A way to carry plans out. What packets see is consistent at every moment; after an error nothing is known of
/// what the kernel holds, and a rewrite follows.
pub trait Backend {
    /// The backend that this one stands on, if it does: what it does not do itself is left to that one.
    fn base(&self) -> Option<&dyn Backend> {
        None
    }

    fn base_mut(&mut self) -> Option<&mut dyn Backend> {
        None
    }

    /// Make the kernel hold just these services, whatever it held before.
    fn rewrite(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> Result<Committed, SyncError>;

    /// Carry out some changes. `node` is before and after.
    fn apply(
        &mut self,
        family: Family,
        changes: &[Change<'_>],
        node: (&NodePlan, &NodePlan),
    ) -> Result<Committed, SyncError>;

    /// Whether everything has to be written because the node is another one than before.
    fn is_rewritten_for(&self, before: &NodePlan, after: &NodePlan) -> bool {
        self.base().is_some_and(|base| base.is_rewritten_for(before, after))
    }

    /// Whether a large change costs less for others if it is made in several steps.
    fn works_in_pieces(&self) -> bool {
        self.base().is_some_and(Backend::works_in_pieces)
    }

    /// Pools with more endpoints are shortened while the affinity of their port changes.
    fn most_turned(&self) -> usize {
        self.base().map_or(MOST_TURNED, Backend::most_turned)
    }

    /// What to apply instead of the new plan until what [`take_sweeps`](Backend::take_sweeps) hands out is done, if a change
    /// cannot be made in one step.
    fn interim(&self, change: &Change<'_>) -> Option<ServicePlan> {
        self.base()?.interim(change)
    }

    /// Pins that the last commits left without their endpoint: to be found beside the sync thread, and then forgotten.
    fn take_sweeps(&mut self, family: Family) -> Vec<PinSweep> {
        self.base_mut().map(|base| base.take_sweeps(family)).unwrap_or_default()
    }

    /// Find and forget them here and now.
    fn sweep(&mut self, sweep: &PinSweep) -> Result<usize, SyncError> {
        self.base_mut().map_or(Ok(0), |base| base.sweep(sweep))
    }

    /// Delete pins that a sweep found. Returns how many went.
    fn forget(&mut self, family: Family, pins: &[Pin]) -> Result<usize, SyncError> {
        self.base_mut().map_or(Ok(0), |base| base.forget(family, pins))
    }

    /// Where the mode itself takes clients in: it leads their flows on, so no recorded flow to there is stale.
    fn doors(&self, family: Family) -> &[SocketAddr] {
        self.base().map(|base| base.doors(family)).unwrap_or_default()
    }

    /// How to end the connections that the mode carries itself, if it does.
    fn farewell(&self) -> Option<Farewell> {
        self.base()?.farewell()
    }

    /// Services of which the mode began to leave something out in this family, or no longer does, since the last call.
    fn take_shortfalls(&mut self, family: Family) -> Vec<Shortfall> {
        self.base_mut().map(|base| base.take_shortfalls(family)).unwrap_or_default()
    }

    /// What the rules depend on from the next rewrite on. Returns whether a rewrite is due.
    fn configure(&mut self, family: Family, setup: &Setup) -> bool;

    /// Pass on changes by others from now on, and say if some may have been missed since our first commit; where
    /// there are no notifications, the periodic check finds them.
    ///
    /// It is called after the first sync: a subscriber makes the kernel write a notification for every element, which
    /// makes a large first commit 50 % slower.
    fn watch(&mut self, tell: TellDrift) {
        if let Some(base) = self.base_mut() {
            base.watch(tell);
        }
    }

    /// How often to look whether the rules are intact. `sync_period` is the longest time between two looks.
    fn looks(&mut self, sync_period: Duration) -> Looks {
        let usual = Looks { usual: sync_period, longest: sync_period };
        self.base_mut().map_or(usual, |base| base.looks(sync_period))
    }

    /// What is said when a look finds damage, as the beginning of a sentence.
    fn damage_found(&self) -> &'static str {
        self.base().map_or("Another process changed our rules", Backend::damage_found)
    }

    /// Whether the rules are still there, as far as a look of little cost can tell: these plans are in force.
    fn is_intact(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> bool;

    /// Compare what the kernel holds for one address and port with what was written there. What takes longer than a
    /// fraction of a millisecond is left to another thread.
    fn inspect(&mut self, family: Family, inspected: &Inspected<'_>) -> Look {
        match self.base_mut() {
            Some(base) => base.inspect(family, inspected),
            None => Look::Done(Ok(Inspection::default())),
        }
    }

    /// What the mode makes of a packet that is planned to have this fate.
    fn fate(&self, protocol: Protocol, planned: Fate) -> Fate {
        self.base().map_or(planned, |base| base.fate(protocol, planned))
    }

    /// Compare everything at once, or only one of these services and what all share, where that costs less than address by
    /// address; `None` where it does not.
    fn inspect_all(
        &mut self,
        family: Family,
        plans: (&HashMap<ServiceKey, ServicePlan>, Option<&ServiceKey>),
        node: &NodePlan,
    ) -> Option<Look> {
        self.base_mut()?.inspect_all(family, plans, node)
    }

    /// Remove every rule of this mode.
    fn cleanup(&mut self, family: Family) -> Result<(), SyncError>;
}

/// Why a sync failed. The old rules stand. The source is the error of the mode, in its own words.
#[derive(Debug)]
pub struct SyncError {
    service: Option<ServiceKey>,
    source: Box<dyn Error + Send + Sync>,
}

impl SyncError {
    pub fn new(source: impl Error + Send + Sync + 'static) -> SyncError {
        SyncError { service: None, source: Box::new(source) }
    }

    /// The same with the service at whose rules it happened, where that is known.
    pub fn at(self, service: Option<ServiceKey>) -> SyncError {
        SyncError { service, ..self }
    }

    pub fn service(&self) -> Option<&ServiceKey> {
        self.service.as_ref()
    }
}

impl fmt::Display for SyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.service {
            Some(service) => write!(f, "service {service}: {}", self.source),
            None => write!(f, "{}", self.source),
        }
    }
}

impl Error for SyncError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}
