//! What a proxy mode offers to the reconciler.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use crate::nftables::{Pin, PinSweep};
use kernel::{iptables, nft};
use model::{Family, LocalDetector, NodePlan, ServiceKey, ServicePlan};

/// One service whose plan changed. Pools are in slot order: an endpoint keeps its place while it lives.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    pub service: &'a ServiceKey,
    /// What the kernel holds.
    pub old: Option<&'a ServicePlan>,
    pub new: Option<&'a ServicePlan>,
}

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

/// Rules of ours by table, filter and nat ([`iptables::Table`]).
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
}

/// A way to carry plans out. What packets see is consistent at every moment; after an error nothing is known of
/// what the kernel holds, and a rewrite follows.
pub trait Backend {
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

    /// Whether a large change costs less for others if it is made in several steps.
    fn works_in_pieces(&self) -> bool {
        false
    }

    /// What to apply instead of the new plan until what [`take_sweeps`](Backend::take_sweeps) hands out is done, if a change
    /// cannot be made in one step.
    fn interim(&self, _change: &Change<'_>) -> Option<ServicePlan> {
        None
    }

    /// Pins that the last commits left without their endpoint: to be found beside the sync thread, and then forgotten.
    fn take_sweeps(&mut self, _family: Family) -> Vec<PinSweep> {
        Vec::new()
    }

    /// Find and forget them here and now.
    fn sweep(&mut self, _sweep: &PinSweep) -> Result<usize, SyncError> {
        Ok(0)
    }

    /// Delete pins that a sweep found. Returns how many went.
    fn forget(&mut self, _family: Family, _pins: &[Pin]) -> Result<usize, SyncError> {
        Ok(0)
    }

    /// What the rules depend on from the next rewrite on. Returns whether a rewrite is due.
    fn configure(&mut self, family: Family, setup: &Setup) -> bool;

    /// Whether the rules are still there, as far as a look of little cost can tell: these plans are in force.
    fn is_intact(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> bool;

    /// Remove every rule of this mode.
    fn cleanup(&mut self, family: Family) -> Result<(), SyncError>;
}

/// Why a sync failed. The old rules stand.
#[derive(Debug)]
pub enum SyncError {
    /// The kernel refused the transaction.
    Commit(nft::CommitError),
    /// The kernel's tables could not be read.
    Read(nft::Error),
    /// An iptables tool failed; the service is that at whose rules it stopped.
    Tool { error: iptables::ToolError, service: Option<ServiceKey> },
    /// There are services of the family, and no iptables tools that could write their rules.
    NoTools(Family),
}

impl fmt::Display for SyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SyncError::Commit(error) => write!(f, "{error}"),
            SyncError::Read(error) => write!(f, "{error}"),
            SyncError::Tool { error, service: Some(service) } => write!(f, "service {service}: {error}"),
            SyncError::Tool { error, service: None } => write!(f, "{error}"),
            SyncError::NoTools(family) => write!(
                f,
                "there are services of {family}, and no iptables tools that work for it; the log of the start says why"
            ),
        }
    }
}

impl std::error::Error for SyncError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SyncError::Commit(error) => Some(error),
            SyncError::Read(error) => Some(error),
            SyncError::Tool { error, .. } => Some(error),
            SyncError::NoTools(_) => None,
        }
    }
}

impl From<nft::CommitError> for SyncError {
    fn from(error: nft::CommitError) -> SyncError {
        SyncError::Commit(error)
    }
}

impl From<nft::Error> for SyncError {
    fn from(error: nft::Error) -> SyncError {
        SyncError::Read(error)
    }
}
