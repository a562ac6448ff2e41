//! Everything that can be configured, typed, with its default. Flags and files write here; nothing else holds a
//! default.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use model::Mode;

use super::address::{ClusterCidrs, Endpoint};
use super::choice::{ContentType, LocalMode};
use super::gates::FeatureGates;
use super::logging::Logging;
use super::modes::Sections;
use super::nodeport::NodePortItems;
use super::value::{Period, Rate, Span, Whole};

type Count = Whole<0, { i32::MAX }>;

#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    pub feature_gates: FeatureGates,
    pub client_connection: ClientConnection,
    pub logging: Logging,
    pub hostname_override: String,
    /// The node's primary address, unless unspecified. Nothing binds to it.
    pub bind_address: IpAddr,
    pub healthz_bind_address: Endpoint<10256>,
    pub metrics_bind_address: Endpoint<10249>,
    pub bind_address_hard_fail: bool,
    pub enable_profiling: bool,
    pub show_hidden_metrics_for_version: String,
    /// `None` until one is chosen.
    pub mode: Option<Mode>,
    pub of_mode: Sections,
    pub winkernel: Winkernel,
    pub detect_local_mode: LocalMode,
    pub detect_local: DetectLocalNames,
    pub cluster_cidr: ClusterCidrs,
    pub node_port_addresses: NodePortItems,
    pub oom_score_adj: Whole<-1000, 1000>,
    pub conntrack: Conntrack,
    pub config_sync_period: Period,
    pub port_range: String,
    pub windows_run_as_service: bool,
}

impl Default for Configuration {
    fn default() -> Configuration {
        Configuration {
            feature_gates: FeatureGates::default(),
            client_connection: ClientConnection::default(),
            logging: Logging::default(),
            hostname_override: String::new(),
            bind_address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            healthz_bind_address: Endpoint::ANY,
            metrics_bind_address: Endpoint::LOOPBACK,
            bind_address_hard_fail: false,
            enable_profiling: false,
            show_hidden_metrics_for_version: String::new(),
            mode: None,
            of_mode: Sections::default(),
            winkernel: Winkernel::default(),
            detect_local_mode: LocalMode::ClusterCidr,
            detect_local: DetectLocalNames::default(),
            cluster_cidr: ClusterCidrs::default(),
            node_port_addresses: NodePortItems::default(),
            oom_score_adj: Whole(-999),
            conntrack: Conntrack::default(),
            config_sync_period: Period(Duration::from_secs(15 * 60)),
            port_range: String::new(),
            windows_run_as_service: false,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ClientConnection {
    pub kubeconfig: String,
    pub accept_content_types: String,
    pub content_type: ContentType,
    pub qps: Rate,
    pub burst: Count,
}

impl Default for ClientConnection {
    fn default() -> ClientConnection {
        ClientConnection {
            kubeconfig: String::new(),
            accept_content_types: String::new(),
            content_type: ContentType::Protobuf,
            qps: Rate(5.0),
            burst: Whole(10),
        }
    }
}

/// Of Windows; kept so that a file comes back as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Winkernel {
    pub network_name: String,
    pub source_vip: String,
    pub enable_dsr: bool,
    pub root_hns_endpoint_name: String,
    pub forward_health_check_vip: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetectLocalNames {
    pub bridge_interface: String,
    pub interface_name_prefix: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conntrack {
    /// 0 leaves the limit alone.
    pub max_per_core: Count,
    pub min: Count,
    /// As with the other timeouts, 0 leaves the node's own.
    pub tcp_established_timeout: Span,
    pub tcp_close_wait_timeout: Span,
    pub tcp_be_liberal: bool,
    pub udp_timeout: Span,
    pub udp_stream_timeout: Span,
}

impl Default for Conntrack {
    fn default() -> Conntrack {
        Conntrack {
            max_per_core: Whole(32 * 1024),
            min: Whole(128 * 1024),
            tcp_established_timeout: Span(Duration::from_secs(24 * 60 * 60)),
            tcp_close_wait_timeout: Span(Duration::from_secs(60 * 60)),
            tcp_be_liberal: false,
            udp_timeout: Span::default(),
            udp_stream_timeout: Span::default(),
        }
    }
}
