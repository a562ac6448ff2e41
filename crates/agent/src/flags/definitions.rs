//! Every flag in one place: name, value, help, and how it is read.

use super::Raw;
use crate::{ContentType, duration};

pub(crate) struct Flag {
    pub(crate) name: &'static str,
    pub(crate) short: Option<&'static str>,
    /// What stands for the value in the help; none for a switch.
    pub(crate) value: Option<&'static str>,
    pub(crate) help: &'static str,
    pub(crate) group: Group,
    pub(crate) set: fn(&mut Raw, &str) -> Result<(), String>,
}

impl Flag {
    /// A switch may stand alone; any other flag needs a value.
    pub(crate) fn is_switch(&self) -> bool {
        self.value.is_none()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Source,
    Traffic,
    Sync,
    Serving,
    General,
}

impl Group {
    pub(crate) const ALL: [Group; 5] =
        [Group::Source, Group::Traffic, Group::Sync, Group::Serving, Group::General];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Group::Source => "Where objects come from",
            Group::Traffic => "Where packets go",
            Group::Sync => "When rules are written",
            Group::Serving => "What is served",
            Group::General => "General",
        }
    }
}

pub(crate) const FLAGS: &[Flag] = &[
    Flag {
        name: "kubeconfig",
        short: None,
        value: Some("FILE"),
        help: "How to reach the apiserver (default, without --master: the service account of this pod).",
        group: Group::Source,
        set: |raw, value| text(value).map(|value| raw.kubeconfig = value),
    },
    Flag {
        name: "master",
        short: None,
        value: Some("URL"),
        help: "The apiserver, instead of the one in the kubeconfig.",
        group: Group::Source,
        set: |raw, value| text(value).map(|value| raw.master = value),
    },
    Flag {
        name: "kube-api-content-type",
        short: None,
        value: Some("TYPE"),
        help: "What the apiserver is asked for: application/vnd.kubernetes.protobuf (default) or application/json.",
        group: Group::Source,
        set: |raw, value| {
            raw.content_type = match value {
                "" | "application/vnd.kubernetes.protobuf" => ContentType::Protobuf,
                "application/json" => ContentType::Json,
                _ => {
                    return Err(format!(
                        "{value:?} is neither application/vnd.kubernetes.protobuf nor application/json"
                    ));
                }
            };
            Ok(())
        },
    },
    Flag {
        name: "kube-api-qps",
        short: None,
        value: Some("NUMBER"),
        help: "Requests to the apiserver a second, on average (default 5).",
        group: Group::Source,
        set: |raw, value| {
            raw.qps = value.parse().map_err(|_| format!("{value:?} is not a number"))?;
            Ok(())
        },
    },
    Flag {
        name: "kube-api-burst",
        short: None,
        value: Some("NUMBER"),
        help: "Requests to the apiserver at once (default 10).",
        group: Group::Source,
        set: |raw, value| {
            raw.burst = value.parse().map_err(|_| format!("{value:?} is not a number from 0"))?;
            Ok(())
        },
    },
    Flag {
        name: "manifests",
        short: None,
        value: Some("PATH"),
        help: "File or folder of YAML/JSON with Service, EndpointSlice, Node and ServiceCIDR objects; watched.",
        group: Group::Source,
        set: |raw, value| text(value).map(|value| raw.manifests = value),
    },
    Flag {
        name: "hostname-override",
        short: None,
        value: Some("NAME"),
        help: "The name of this node in the cluster (default: the host name).",
        group: Group::Source,
        set: |raw, value| text(value).map(|value| raw.hostname_override = value),
    },
    Flag {
        name: "proxy-mode",
        short: None,
        value: Some("MODE"),
        help: "How rules are programmed: nftables (default).",
        group: Group::Traffic,
        set: |raw, value| text(value).map(|value| raw.proxy_mode = value),
    },
    Flag {
        name: "cluster-cidr",
        short: None,
        value: Some("CIDR[,CIDR]"),
        help: "The pods' addresses, one prefix a family; other sources of cluster-IP traffic are masqueraded.",
        group: Group::Traffic,
        set: |raw, value| text(value).map(|value| raw.cluster_cidr = value),
    },
    Flag {
        name: "detect-local-mode",
        short: None,
        value: Some("MODE"),
        help: "How traffic of local pods is recognised: ClusterCIDR (default), NodeCIDR, \
               BridgeInterface or InterfaceNamePrefix.",
        group: Group::Traffic,
        set: |raw, value| text(value).map(|value| raw.detect_local_mode = value),
    },
    Flag {
        name: "pod-bridge-interface",
        short: None,
        value: Some("NAME"),
        help: "The bridge of the pods, for --detect-local-mode=BridgeInterface.",
        group: Group::Traffic,
        set: |raw, value| text(value).map(|value| raw.pod_bridge_interface = value),
    },
    Flag {
        name: "pod-interface-name-prefix",
        short: None,
        value: Some("PREFIX"),
        help: "How the pods' interfaces begin, for --detect-local-mode=InterfaceNamePrefix.",
        group: Group::Traffic,
        set: |raw, value| text(value).map(|value| raw.pod_interface_name_prefix = value),
    },
    Flag {
        name: "nodeport-addresses",
        short: None,
        value: Some("CIDR[,CIDR...]"),
        help: "Node addresses that serve node ports: prefixes, or the words primary (default) and all.",
        group: Group::Traffic,
        set: |raw, value| text(value).map(|value| raw.nodeport_addresses = value),
    },
    Flag {
        name: "masquerade-all",
        short: None,
        value: None,
        help: "Masquerade all cluster-IP traffic, not only that from outside the cluster.",
        group: Group::Traffic,
        set: |raw, value| switch(value).map(|value| raw.masquerade_all = value),
    },
    Flag {
        name: "iptables-masquerade-bit",
        short: None,
        value: Some("BIT"),
        help: "The bit of the packet mark that asks for masquerade, 0 to 31 (default 14).",
        group: Group::Traffic,
        set: |raw, value| {
            let bit = value.parse().ok().filter(|bit| *bit < 32);
            raw.masquerade_bit = bit.ok_or_else(|| format!("{value:?} is not a bit number from 0 to 31"))?;
            Ok(())
        },
    },
    Flag {
        name: "iptables-sync-period",
        short: None,
        value: Some("DURATION"),
        help: "The interval of the periodic check (default 30s).",
        group: Group::Sync,
        set: |raw, value| duration::parse(value).map(|value| raw.sync_period = value),
    },
    Flag {
        name: "iptables-min-sync-period",
        short: None,
        value: Some("DURATION"),
        help: "The most a change waits for its sync; an idle agent syncs at once (default 1s).",
        group: Group::Sync,
        set: |raw, value| duration::parse(value).map(|value| raw.min_sync_period = value),
    },
    Flag {
        name: "healthz-bind-address",
        short: None,
        value: Some("IP:PORT"),
        help: "Where /healthz, /livez and /readyz are served (default 0.0.0.0:10256; empty: nowhere).",
        group: Group::Serving,
        set: |raw, value| {
            raw.healthz_bind_address = value.to_owned();
            Ok(())
        },
    },
    Flag {
        name: "bind-address-hard-fail",
        short: None,
        value: None,
        help: "Exit when an address cannot be bound, instead of trying again every 5 s.",
        group: Group::Serving,
        set: |raw, value| switch(value).map(|value| raw.bind_address_hard_fail = value),
    },
    Flag {
        name: "verbosity",
        short: Some("v"),
        value: Some("LEVEL"),
        help: "0 errors and warnings, 2 also starts, repairs and mended problems (default), 4 also every sync.",
        group: Group::General,
        set: |raw, value| {
            raw.verbosity = value.parse().map_err(|_| format!("{value:?} is not a level from 0 to 255"))?;
            Ok(())
        },
    },
    Flag {
        name: "version",
        short: None,
        value: None,
        help: "Print the version.",
        group: Group::General,
        set: |raw, value| switch(value).map(|value| raw.version = value),
    },
    Flag {
        name: "help",
        short: Some("h"),
        value: None,
        help: "Print this help.",
        group: Group::General,
        set: |raw, value| switch(value).map(|value| raw.help = value),
    },
];

/// Flags of Kubernetes' kube-proxy that this build does not have, to tell them from typing errors.
pub(crate) const NOT_YET: &[&str] = &[
    "bind-address",
    "cleanup",
    "config",
    "config-sync-period",
    "conntrack-max-per-core",
    "conntrack-min",
    "conntrack-tcp-be-liberal",
    "conntrack-tcp-timeout-close-wait",
    "conntrack-tcp-timeout-established",
    "conntrack-udp-timeout",
    "conntrack-udp-timeout-stream",
    "feature-gates",
    "init-only",
    "iptables-localhost-nodeports",
    "ipvs-exclude-cidrs",
    "ipvs-min-sync-period",
    "ipvs-scheduler",
    "ipvs-strict-arp",
    "ipvs-sync-period",
    "ipvs-tcp-timeout",
    "ipvs-tcpfin-timeout",
    "ipvs-udp-timeout",
    "log-flush-frequency",
    "logging-format",
    "metrics-bind-address",
    "oom-score-adj",
    "profiling",
    "show-hidden-metrics-for-version",
    "vmodule",
    "write-config-to",
];

fn text(value: &str) -> Result<String, String> {
    Ok(value.to_owned())
}

fn switch(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "t" | "1" => Ok(true),
        "false" | "f" | "0" => Ok(false),
        _ => Err(format!("{value:?} is neither true nor false")),
    }
}
