//! The metrics of the sync loop, in words.

use super::buckets;
use super::registry::{Description, Kind};

const F: &[&str] = &["ip_family"];

const fn of_family(name: &'static str, kind: Kind, help: &'static str) -> Description {
    Description { name, kind, labels: F, help }
}

pub(super) const DURATION: Description = of_family(
    "kubeproxy_sync_proxy_rules_duration_seconds",
    Kind::Histogram(buckets::SYNC),
    "Duration of syncs, from planning to the end of the kernel's transaction",
);
pub(super) const FULL_DURATION: Description = of_family(
    "kubeproxy_sync_full_proxy_rules_duration_seconds",
    Kind::Histogram(buckets::SYNC),
    "Duration of syncs that wrote all rules",
);
pub(super) const PARTIAL_DURATION: Description = of_family(
    "kubeproxy_sync_partial_proxy_rules_duration_seconds",
    Kind::Histogram(buckets::SYNC),
    "Duration of syncs that wrote only what had changed",
);
pub(super) const NETWORK_PROGRAMMING: Description = of_family(
    "kubeproxy_network_programming_duration_seconds",
    Kind::Histogram(buckets::NETWORK_PROGRAMMING),
    "From the moment the control plane saw a pod or service change until traffic on this node followed",
);
pub(super) const LAST: Description =
    of_family("kubeproxy_sync_proxy_rules_last_timestamp_seconds", Kind::Gauge, "When a sync last succeeded");
pub(super) const LAST_QUEUED: Description = of_family(
    "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
    Kind::Gauge,
    "When a change last asked for a sync",
);
pub(super) const NO_LOCAL_ENDPOINTS: Description = Description::gauge(
    "kubeproxy_sync_proxy_rules_no_local_endpoints_total",
    &["traffic_policy", "ip_family"],
    "Service ports that drop traffic here: their policy is Local and no endpoint is on this node",
);

/// In the order of `dataplane::Phases`.
pub(super) const PHASES: [&str; 3] = ["plan", "render", "commit"];
pub(super) const PHASE_DURATION: Description = Description {
    name: "pointsman_sync_phase_duration_seconds",
    kind: Kind::Histogram(buckets::PHASE),
    labels: &["phase", "ip_family"],
    help: "Duration of successful syncs by phase: deciding, building the transaction, committing it",
};
/// In the order of `dataplane::Programmed`.
pub(super) const PROGRAMMED: [Description; 3] = [
    of_family("pointsman_programmed_services", Kind::Gauge, "Services whose rules are in the kernel"),
    of_family(
        "pointsman_programmed_endpoints",
        Kind::Gauge,
        "Slots in the endpoint pools of all service ports; an endpoint that serves both policies has two",
    ),
    of_family(
        "pointsman_programmed_elements",
        Kind::Gauge,
        "Elements of the kernel's maps and sets that belong to services",
    ),
];
pub(super) const REPAIRS: Description = of_family(
    "pointsman_drift_repairs_total",
    Kind::Counter,
    "Times that all rules were rewritten because another process changed them, or may have",
);
pub(super) const CONTESTED: Description = of_family(
    "pointsman_contested_addresses",
    Kind::Gauge,
    "Addresses (with port and protocol) that more than one service claims; one service owns each",
);

const fn of_node(name: &'static str, kind: Kind, help: &'static str) -> Description {
    Description { name, kind, labels: &[], help }
}

pub(super) const ENDPOINTS_PENDING: Description = of_node(
    "kubeproxy_sync_proxy_rules_endpoint_changes_pending",
    Kind::Gauge,
    "Changes of EndpointSlices that traffic does not follow yet",
);
pub(super) const ENDPOINTS_TOTAL: Description = of_node(
    "kubeproxy_sync_proxy_rules_endpoint_changes_total",
    Kind::Counter,
    "Changes of EndpointSlices since the start",
);
pub(super) const SERVICES_PENDING: Description = of_node(
    "kubeproxy_sync_proxy_rules_service_changes_pending",
    Kind::Gauge,
    "Changes of Services that traffic does not follow yet",
);
pub(super) const SERVICES_TOTAL: Description = of_node(
    "kubeproxy_sync_proxy_rules_service_changes_total",
    Kind::Counter,
    "Changes of Services since the start",
);
