//! The domain of Pointsman: what Services, endpoints and nodes mean to a packet.
//!
//! [`plan()`] holds every decision (which endpoints are usable, who may reach them, whose address
//! is rewritten) exactly once, in plain values. Nothing here reads a file, a socket or a clock, and
//! nothing here knows which kernel mechanism will carry the plan out.

mod address;
mod claims;
mod conntrack;
mod endpoint;
#[cfg(test)]
mod fixtures;
mod ipvs;
mod node;
mod plan;
mod planner;
mod service;
mod topology;

pub use address::{Family, NodePortAddresses, Protocol};
pub use claims::{Claim, Claims, Contest, ContestNews, Pair};
pub use conntrack::{FlowTarget, RecordedFlow, StaleFlows, StaleSet, merge_stale, stale_flows};
pub use endpoint::{Endpoint, EndpointSlice, Hints, SlicePort};
pub use ipvs::{IpvsSettings, IpvsTimeouts, Scheduler};
pub use node::{
    LocalDetector, NodePlan, NodeView, default_primary, missed_prefixes, nodeport_loopback, plan_node,
};
pub use plan::{
    Address, AllowedSources, Destination, Excess, MOST_WEIGHT, Masquerade, PlannedEndpoint, Pool, PortPlan,
    Role, Routing, ServicePlan, Settings, Verdict, merged_ports, plan,
};
pub use planner::{Planned, Planner};
pub use service::{Service, ServiceKey, ServicePort, TrafficPolicy};
