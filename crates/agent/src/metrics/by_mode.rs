//! Metrics that only some proxy modes have, apart from those of the sync loop. They appear once the mode has something
//! to say.

use super::registry::{Description, Kind, Registry};
use crate::config::{FeatureGates, Mode};

const F: &[&str] = &["ip_family"];
pub(crate) const INVALID_DROPPED: Description = Description {
    name: "kubeproxy_iptables_ct_state_invalid_dropped_packets_total",
    kind: Kind::Counter,
    labels: &[],
    help: "Packets that were dropped because conntrack found them invalid",
};
pub(crate) const LOCALHOST_ACCEPTED: Description = Description {
    name: "kubeproxy_iptables_localhost_nodeports_accepted_packets_total",
    kind: Kind::Counter,
    labels: &[],
    help: "Packets to node ports that came by way of 127.0.0.1",
};
const LISTENERS: Description = Description {
    name: "kubeproxy_nftables_localhost_nodeport_listeners",
    kind: Kind::Gauge,
    labels: F,
    help: "Listeners that serve node ports on loopback addresses",
};
const LISTENER_FAILURES: Description = Description {
    name: "kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total",
    kind: Kind::Counter,
    labels: F,
    help: "Listeners for node ports on loopback addresses that could not be made",
};
const LOCALHOST_REJECTED: Description = Description {
    name: "kubeproxy_nftables_localhost_nodeport_rejected_packets_total",
    kind: Kind::Counter,
    labels: &["ip_family", "protocol"],
    help: "Packets to node ports on loopback addresses that were rejected",
};

/// The gate without which nftables mode serves no node ports on loopback addresses.
const LOCALHOST_GATE: &str = "KubeProxyNFTablesLocalhostNodePorts";

pub(super) fn register(registry: &mut Registry, mode: Mode, gates: &FeatureGates) {
    let names: &[Description] = match mode {
        Mode::Iptables => &[INVALID_DROPPED, LOCALHOST_ACCEPTED],
        Mode::Nftables | Mode::Unset if gates.is_on(LOCALHOST_GATE) => {
            &[LISTENERS, LISTENER_FAILURES, LOCALHOST_REJECTED]
        }
        Mode::Nftables | Mode::Unset | Mode::Ipvs => &[],
    };
    for about in names {
        registry.growing(*about);
    }
}
