//! What the agent runs with, after parsing and validation: no strings left to interpret.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use model::{LocalDetector, ModeSettings, NodePortAddresses, OnLoopback, Settings};

use crate::{ConfigFile, ContentType, FeatureGates, Logging, Mode};

#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub source: Source,
    /// The name of this node in the cluster.
    pub node_name: String,
    pub detect_local: DetectLocal,
    pub nodeport_addresses: NodePortAddresses,
    /// How node ports answer on loopback addresses.
    pub nodeports_on_loopback: OnLoopback,
    pub settings: Settings,
    /// How rules are programmed.
    pub mode: Mode,
    /// No mode is set: why it is this one.
    pub mode_because: Option<String>,
    pub masquerade_mark: u32,
    /// Count packets, bytes and connections of every service port.
    pub service_counters: bool,
    /// The interval of the periodic check.
    pub sync_period: Duration,
    /// The most a change waits for its sync.
    pub min_sync_period: Duration,
    /// What only single modes read.
    pub of_mode: ModeSettings,
    /// Where the probes are served; `None` serves none.
    pub healthz_bind_address: Option<SocketAddr>,
    /// Where metrics and the pages beside them are served; `None` serves none.
    pub metrics_bind_address: Option<SocketAddr>,
    pub pages: PageOptions,
    /// For the metric that lists them, and for metrics that a gate adds.
    pub feature_gates: FeatureGates,
    pub logging: Logging,
    pub node: NodeOptions,
    /// The node's primary address of its family, whatever the Node object says.
    pub bind_address: Option<IpAddr>,
    /// Give up when an address cannot be bound, instead of trying again every 5 s.
    pub bind_address_hard_fail: bool,
    /// Followed while the agent runs.
    pub config_file: Option<ConfigFile>,
}

/// What is served beside the metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageOptions {
    /// The configuration as JSON, for `/configz`.
    pub configz: String,
    pub has_flagz: bool,
    pub has_statusz: bool,
    pub has_profiles: bool,
}

/// What is set on the node itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOptions {
    pub oom_score_adj: i32,
    pub conntrack: ConntrackOptions,
}

/// A timeout that is `None` keeps the node's setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConntrackOptions {
    /// 0 keeps the node's limit.
    pub max_per_core: u32,
    pub min: u32,
    pub tcp_established_timeout: Option<Duration>,
    pub tcp_close_wait_timeout: Option<Duration>,
    pub udp_timeout: Option<Duration>,
    pub udp_stream_timeout: Option<Duration>,
    pub tcp_be_liberal: bool,
}

/// Where Services, EndpointSlices, the Node and ServiceCIDRs come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A file or folder of manifests.
    Manifests(PathBuf),
    Apiserver(ApiserverOptions),
}

/// How to reach the apiserver. With neither a kubeconfig nor a master: as a pod does, by its service account.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiserverOptions {
    pub kubeconfig: Option<PathBuf>,
    /// The URL of the apiserver, instead of the one in the kubeconfig.
    pub master: Option<String>,
    pub content_type: ContentType,
    /// Requests a second, on average.
    pub qps: f32,
    /// Requests at once.
    pub burst: u32,
}

/// How traffic of this node's pods is recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DetectLocal {
    /// By something that is known from the start.
    Fixed(LocalDetector),
    /// By the pod CIDRs of this node's Node object.
    NodeCidr,
}
