//! The two kube-proxies, and their settings.

use std::path::Path;

use conformance_support::Kit;
use sandbox::address;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Failure;
use crate::objects::NODE;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Contestant {
    Ours,
    Upstream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    Nftables,
    Iptables,
    Ipvs,
}

/// Every `syncPeriod`, upstream compares every virtual server with what it wants. With the default, 30 s, an emulated
/// machine would do nothing else.
const EMULATED_SYNC_PERIOD: &str = "10m";

/// `minSyncPeriod`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// 10 ms, so that what is measured is work and not waiting.
    Eager,
    /// The default of both: 1 s.
    Default,
}

impl Mode {
    pub(crate) fn parse(text: &str) -> Result<Mode, Failure> {
        match text {
            "nftables" => Ok(Mode::Nftables),
            "iptables" => Ok(Mode::Iptables),
            "ipvs" => Ok(Mode::Ipvs),
            _ => Err(format!("--mode {text}: only nftables, iptables and ipvs can be compared").into()),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Nftables => "nftables",
            Mode::Iptables => "iptables",
            Mode::Ipvs => "ipvs",
        }
    }
}

impl Contestant {
    pub(crate) const BOTH: [Contestant; 2] = [Contestant::Ours, Contestant::Upstream];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Contestant::Ours => "Pointsman",
            Contestant::Upstream => "upstream",
        }
    }

    pub(crate) fn binary(self, kit: &Kit) -> &Path {
        match self {
            Contestant::Ours => &kit.kube_proxy,
            Contestant::Upstream => &kit.upstream,
        }
    }
}

/// The same file for both. JSON is YAML.
pub(crate) fn config(mode: Mode, pace: Pace, kubeconfig: &Path) -> Value {
    let mut config = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": mode.name(),
        "hostnameOverride": NODE,
        "clientConnection": {"kubeconfig": kubeconfig},
        "clusterCIDR": cluster_cidr(),
        // These belong to the whole machine, not to the namespace.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    });
    let mut section = json!({});
    if pace == Pace::Eager {
        section["minSyncPeriod"] = "10ms".into();
    }
    if mode == Mode::Ipvs {
        section["syncPeriod"] = EMULATED_SYNC_PERIOD.into();
    }
    config[mode.name()] = section;
    config
}

fn cluster_cidr() -> String {
    format!("{},{}", address::CLUSTER_V4, address::CLUSTER_V6)
}
