//! The events the agent records, in upstream's words: alerts and people look for these reasons.

use std::net::SocketAddr;

use cluster::apiserver::{Event, Regarding};

const START: &str = "StartKubeProxy";

pub(crate) fn starting(node: &str) -> Event {
    about_node(node, "Starting", false, String::new())
}

/// Nobody chose the mode, and a later release may choose another.
pub(crate) fn default_mode(node: &str) -> Event {
    let note = "No proxy mode is set: nftables is used, because this kernel has it. Set mode: nftables (or \
                --proxy-mode=nftables) to keep it whatever the default becomes.";
    about_node(node, "KubeProxyDefaultMode", true, note.to_owned())
}

pub(crate) fn probes_not_served(node: &str, address: SocketAddr, why: &std::io::Error) -> Event {
    let note = format!("The health probes cannot be served on {address}: {why}");
    about_node(node, "FailedToStartProxierHealthcheck", true, note)
}

fn about_node(node: &str, reason: &'static str, is_warning: bool, note: String) -> Event {
    Event { regarding: Regarding::Node(node.to_owned()), reason, action: START, is_warning, note }
}
