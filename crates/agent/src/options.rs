//! What the agent runs with, after parsing and validation: no strings left to interpret.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use model::{LocalDetector, NodePortAddresses, Settings};

#[derive(Clone, Debug)]
pub struct Options {
    /// File or folder of manifests.
    pub manifests: PathBuf,
    /// The name of this node in the cluster.
    pub node_name: String,
    pub detector: LocalDetector,
    pub nodeport_addresses: NodePortAddresses,
    pub settings: Settings,
    pub masquerade_mark: u32,
    /// The interval of the periodic check.
    pub sync_period: Duration,
    /// The most a change waits for its sync.
    pub min_sync_period: Duration,
    /// Where the probes are served; `None` serves none.
    pub healthz_bind_address: Option<SocketAddr>,
    /// Give up when an address cannot be bound, instead of trying again every 5 s.
    pub bind_address_hard_fail: bool,
    pub verbosity: u8,
}
