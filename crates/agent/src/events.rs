//! The events the agent records, in upstream's words: alerts and people look for these reasons.

use std::net::SocketAddr;

use cluster::apiserver::{Event, Regarding};
use model::ServiceKey;

const START: &str = "StartKubeProxy";
const RELOAD: &str = "ReloadConfiguration";

pub(crate) fn starting(node: &str) -> Event {
    about_node(node, "Starting", false, String::new())
}

/// No mode is set, and a later release may choose another.
pub(crate) fn default_mode(node: &str, mode: &str, because: &str) -> Event {
    let note = format!(
        "No proxy mode is set: {mode} is used, because {because}. Set mode: {mode} (or --proxy-mode={mode}) to keep \
         it if the default changes."
    );
    about_node(node, "KubeProxyDefaultMode", true, note)
}

/// What the mode says to those who choose it.
pub(crate) fn mode_advice(node: &str, reason: &'static str, note: &str) -> Event {
    about_node(node, reason, true, note.to_owned())
}

pub(crate) fn probes_not_served(node: &str, address: SocketAddr, why: &std::io::Error) -> Event {
    let note = format!("Failed to serve the health probes on {address}: {why}");
    about_node(node, "FailedToStartProxierHealthcheck", true, note)
}

/// The reason that older releases of upstream gave.
pub(crate) fn read_only_sys(node: &str) -> Event {
    let note = "/sys is mounted read-only, so conntrack's table keeps its number of buckets: looking up connections may \
                become slow. Raise it on the node: /sys/module/nf_conntrack/parameters/hashsize.";
    about_node(node, "readOnlySysFS", true, note.to_owned())
}

pub(crate) fn metrics_not_served(node: &str, address: SocketAddr, why: &std::io::Error) -> Event {
    let note = format!("Failed to serve the metrics on {address}: {why}");
    about_node(node, "FailedToStartMetricServer", true, note)
}

pub(crate) fn check_not_served(
    node: &str,
    service: &ServiceKey,
    at: SocketAddr,
    why: &std::io::Error,
) -> Event {
    Event {
        regarding: Regarding::Service(service.clone()),
        reason: "FailedToStartServiceHealthcheck",
        action: "Listen",
        is_warning: true,
        note: format!("Node {node} failed to open the health check port of this service on {at}: {why}"),
    }
}

/// On the service that goes without. The note says which addresses, and who has them.
pub(crate) fn addresses_taken(service: &ServiceKey, note: String) -> Event {
    Event {
        regarding: Regarding::Service(service.clone()),
        reason: "AddressClaimedTwice",
        action: "ClaimAddress",
        is_warning: true,
        note,
    }
}

/// Some of it is not served.
pub(crate) fn too_large(service: &ServiceKey, note: String) -> Event {
    Event {
        regarding: Regarding::Service(service.clone()),
        reason: "ServiceTooLarge",
        action: "Program",
        is_warning: true,
        note,
    }
}

/// The mode cannot serve some of it.
pub(crate) fn not_served(service: &ServiceKey, note: &'static str) -> Event {
    Event {
        regarding: Regarding::Service(service.clone()),
        reason: "PortNotServed",
        action: "Program",
        is_warning: true,
        note: note.to_owned(),
    }
}

pub(crate) fn reconfigured(node: &str, changes: &str) -> Event {
    let event = about_node(node, "ConfigurationChanged", false, format!("Now in effect: {changes}"));
    Event { action: RELOAD, ..event }
}

pub(crate) fn configuration_refused(node: &str, problems: &str) -> Event {
    let note = format!("Refused the changed configuration; keeping the previous one: {problems}");
    Event { action: RELOAD, ..about_node(node, "ConfigurationRefused", true, note) }
}

/// Of a mode that is not ours, where they could not be removed.
pub(crate) fn other_rules(node: &str, why: &dyn std::fmt::Display) -> Event {
    about_node(
        node,
        "RulesOfOtherMode",
        true,
        format!("Rules of another mode may still steer traffic: {why}"),
    )
}

fn about_node(node: &str, reason: &'static str, is_warning: bool, note: String) -> Event {
    Event { regarding: Regarding::Node(node.to_owned()), reason, action: START, is_warning, note }
}
