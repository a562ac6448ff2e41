//! The domain of Pointsman: what Services, endpoints and nodes mean to a packet.
//!
//! [`plan()`] holds every decision (which endpoints are usable, who may reach them, whose address
//! is rewritten) exactly once, in plain values. Nothing here reads a file, a socket or a clock, and
//! nothing here knows which kernel mechanism will carry the plan out.

mod address;
mod change;
mod claims;
mod conntrack;
mod dead_end;
mod endpoint;
mod fate;
#[cfg(test)]
mod fixtures;
mod modes;
mod node;
mod plan;
mod planner;
mod service;
mod topology;

pub use address::{Family, NodePortAddresses, Protocol};
pub use change::{Change, ports_of};
pub use claims::{Claim, Claims, Contest, ContestNews, Pair};
pub use conntrack::{FlowTarget, RecordedFlow, StaleFlows, StaleSet, merge_stale, stale_flows};
pub use dead_end::{DeadEnd, FORWARDER};
pub use endpoint::{Endpoint, EndpointSlice, Hints, SlicePort};
pub use fate::{Client, ClientKind, Fate, MasqueradeCause, Refusal, fate_of_unowned};
pub use modes::*;
pub use node::{
    LocalDetector, NodePlan, NodeView, OnLoopback, default_primary, missed_prefixes, nodeport_listeners,
    nodeport_loopback, plan_node,
};
pub use plan::{
    Address, AllowedSources, Destination, Excess, ExplainedEndpoint, MOST_OF_IPVS, MOST_WEIGHT, Masquerade,
    NotUsed, PlannedEndpoint, Pool, PortPlan, Ports, Role, Routing, ServicePlan, Settings, Verdict,
    explain_endpoints, merged_ports, plan,
};
pub use planner::{KnownEndpoint, Planned, Planner};
pub use service::{Service, ServiceKey, ServicePort, TrafficPolicy};
