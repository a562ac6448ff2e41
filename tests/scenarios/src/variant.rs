//! Settings of the agent under which the table of flows is asked again.

use ipnet::IpNet;
use model::{LocalDetector, NodePortAddresses, Settings};
use sandbox::address;

use crate::flows::Position;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsVariant {
    /// Local traffic is recognised by the cluster's range of pod addresses: the base of the table.
    ClusterCidr,
    /// ... by the interface it comes in through. Pods of other nodes count as outside then.
    InterfacePrefix,
    /// ... not at all.
    NoDetector,
    MasqueradeAll,
    /// Node ports on every address of the node.
    AllNodePortAddresses,
    /// Traffic is counted, which changes no flow.
    ServiceCounters,
}

impl SettingsVariant {
    pub const ALL: [SettingsVariant; 6] = [
        SettingsVariant::ClusterCidr,
        SettingsVariant::InterfacePrefix,
        SettingsVariant::NoDetector,
        SettingsVariant::MasqueradeAll,
        SettingsVariant::AllNodePortAddresses,
        SettingsVariant::ServiceCounters,
    ];

    /// Counting is for the modes nftables and ipvs.
    pub const OF_EVERY_MODE: [SettingsVariant; 5] = [
        SettingsVariant::ClusterCidr,
        SettingsVariant::InterfacePrefix,
        SettingsVariant::NoDetector,
        SettingsVariant::MasqueradeAll,
        SettingsVariant::AllNodePortAddresses,
    ];

    pub fn name(self) -> &'static str {
        match self {
            SettingsVariant::ClusterCidr => "cluster-cidr",
            SettingsVariant::InterfacePrefix => "interface-prefix",
            SettingsVariant::NoDetector => "no-detector",
            SettingsVariant::MasqueradeAll => "masquerade-all",
            SettingsVariant::AllNodePortAddresses => "all-nodeport-addresses",
            SettingsVariant::ServiceCounters => "service-counters",
        }
    }

    /// What the agent is started with.
    pub fn flags(self) -> Vec<String> {
        let cidrs = format!("--cluster-cidr={},{}", address::CLUSTER_V4, address::CLUSTER_V6);
        match self {
            SettingsVariant::ClusterCidr => vec![cidrs],
            SettingsVariant::InterfacePrefix => vec![
                "--detect-local-mode=InterfaceNamePrefix".to_owned(),
                format!("--pod-interface-name-prefix={}", address::POD_LINK_PREFIX),
            ],
            SettingsVariant::NoDetector => vec![],
            SettingsVariant::MasqueradeAll => vec![cidrs, "--masquerade-all".to_owned()],
            SettingsVariant::AllNodePortAddresses => vec![cidrs, "--nodeport-addresses=all".to_owned()],
            SettingsVariant::ServiceCounters => vec![cidrs, "--service-counters".to_owned()],
        }
    }

    /// The same as [`SettingsVariant::flags`], for the model.
    pub fn detector(self) -> LocalDetector {
        match self {
            SettingsVariant::InterfacePrefix => {
                LocalDetector::InterfacePrefix(address::POD_LINK_PREFIX.to_owned())
            }
            SettingsVariant::NoDetector => LocalDetector::None,
            SettingsVariant::ClusterCidr
            | SettingsVariant::MasqueradeAll
            | SettingsVariant::AllNodePortAddresses
            | SettingsVariant::ServiceCounters => LocalDetector::Cidrs(cluster_cidrs()),
        }
    }

    pub fn counts_traffic(self) -> bool {
        self == SettingsVariant::ServiceCounters
    }

    pub fn settings(self) -> Settings {
        Settings { masquerade_all: self == SettingsVariant::MasqueradeAll, ..Settings::default() }
    }

    pub fn nodeport_addresses(self) -> NodePortAddresses {
        match self {
            SettingsVariant::AllNodePortAddresses => NodePortAddresses::All,
            _ => NodePortAddresses::Primary,
        }
    }

    /// Whether the agent takes the client for a pod of this node.
    pub fn is_pod(self, from: Position) -> bool {
        match from {
            Position::Guest | Position::EndpointB => self != SettingsVariant::NoDetector,
            // Its address is in the cluster's range, its packets come in through the tunnel.
            Position::Far => !matches!(self, SettingsVariant::NoDetector | SettingsVariant::InterfacePrefix),
            Position::Node
            | Position::NodeOuter
            | Position::Outside
            | Position::OutsideSecond
            | Position::OutsideAsBalancer => false,
        }
    }

    /// Whether it is short-circuited to all endpoints where policy Local keeps others on this node.
    pub fn is_inside(self, from: Position) -> bool {
        from.is_node() || self.is_pod(from)
    }

    /// Whether cluster-IP traffic of the client is masqueraded. Without a detector no client can be distinguished from a
    /// pod, so none is.
    pub fn masquerades_cluster_ip(self, from: Position) -> bool {
        self == SettingsVariant::MasqueradeAll || (self != SettingsVariant::NoDetector && !self.is_pod(from))
    }
}

pub fn cluster_cidrs() -> Vec<IpNet> {
    vec![address::CLUSTER_V4.into(), address::CLUSTER_V6.into()]
}
