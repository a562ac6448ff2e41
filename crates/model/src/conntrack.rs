//! Which recorded flows are provably stale after a service's plan changed.

use std::net::IpAddr;

use crate::{Address, Protocol, ServicePlan};

/// Flows to one destination that must be forgotten, given as a test over recorded flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleFlows {
    pub protocol: Protocol,
    pub at: Address,
    // filled in by the model's author
}

/// Where a recorded flow's packets really go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowTarget {
    /// Rewritten to this endpoint.
    Endpoint(IpAddr, u16),
    /// Not rewritten: recorded while the destination had no endpoint.
    Untouched,
}

/// Compare two plans of one service; either may be absent.
pub fn stale_flows(old: Option<&ServicePlan>, new: Option<&ServicePlan>) -> Vec<StaleFlows> {
    let _ = (old, new);
    Vec::new()
}
