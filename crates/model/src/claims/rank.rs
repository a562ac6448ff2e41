//! How good a claim is.

use crate::{Role, ServiceKey};

/// By what a service claims an address, the better claim first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Title {
    ClusterIp,
    LoadBalancerIp,
    /// External IPs, and node ports among themselves.
    Other,
}

impl Title {
    pub(super) fn of(role: Role) -> Title {
        match role {
            Role::ClusterIp => Title::ClusterIp,
            Role::LoadBalancerIp => Title::LoadBalancerIp,
            Role::ExternalIp | Role::NodePort => Title::Other,
        }
    }
}

/// A place in the queue for a contested spot; the least one owns it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) title: Title,
    pub(super) created: i64,
    pub(super) name: ServiceKey,
    pub(super) seat: u32,
}
