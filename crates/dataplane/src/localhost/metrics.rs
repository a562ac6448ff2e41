//! What is measured of node ports on loopback addresses, by the names that upstream has for its mode nftables.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::{Family, Protocol};

use super::Figures;
use crate::metrics::{Collector, Description, Gated, Page, label_text};

const LISTENERS: Description = Description::gauge(
    "kubeproxy_nftables_localhost_nodeport_listeners",
    &["ip_family"],
    "Listeners that serve node ports on loopback addresses",
);
const FAILURES: Description = Description::counter(
    "kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total",
    &["ip_family"],
    "Listeners for node ports on loopback addresses that could not be created",
);
const REJECTED: Description = Description::counter(
    "kubeproxy_nftables_localhost_nodeport_rejected_packets_total",
    &["ip_family", "protocol"],
    "Connections and UDP flows to node ports on loopback addresses that were rejected",
);

const LEFT_OUT: Description = Description::gauge(
    "pointsman_localhost_nodeport_left_out_listeners",
    &["ip_family"],
    "Listeners for node ports on loopback addresses that are not there because there are too many",
);

/// There if the feature gate is on.
pub(crate) const GATED: Gated = Gated {
    gate: "KubeProxyNFTablesLocalhostNodePorts",
    metrics: &[LISTENERS, FAILURES, REJECTED, LEFT_OUT],
};

/// Shows them once there is a listener, or should be.
pub(crate) fn collector(figures: Arc<Figures>) -> Arc<dyn Collector> {
    Arc::new(Listeners(figures))
}

struct Listeners(Arc<Figures>);

impl Collector for Listeners {
    fn collect(&self, page: &mut Page) {
        let Listeners(figures) = self;
        if !figures.are_there() {
            return;
        }
        let families = || Family::BOTH.map(|family| (family, family.to_string()));
        let mut each = |about: &Description, value: &dyn Fn(usize) -> u64| {
            page.family(about);
            for (family, word) in families() {
                page.count(about.name, &label_text([("ip_family", &*word)]), value(family.index()));
            }
        };
        each(&LISTENERS, &|family| figures.open[family].load(Ordering::Relaxed) as u64);
        each(&FAILURES, &|family| figures.failures[family].load(Ordering::Relaxed));
        each(&LEFT_OUT, &|family| figures.left_out[family].load(Ordering::Relaxed) as u64);
        page.family(&REJECTED);
        for (family, word) in families() {
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                let labels = [("ip_family", &*word), ("protocol", &*protocol.to_string())];
                page.count(REJECTED.name, &label_text(labels), figures.rejected(family, protocol));
            }
        }
    }
}
