//! How full the maps of pins of ClientIP affinity are, on the page `/metrics`.

use std::sync::Arc;

use kernel::nft::Connection;
use kernel::sysctl;
use model::Family;

use super::{count_pins, room_for_pins};
use crate::metrics::{Collector, Description, Page, label_text};

const HELD: Description = Description::gauge(
    "pointsman_affinity_pins",
    &["ip_family", "destination"],
    "Clients that ClientIP affinity has pinned to an endpoint, by destination: an address or a node port",
);
const LIMIT: Description = Description::gauge(
    "pointsman_affinity_pins_limit",
    &[],
    "Maximum number of pins per IP family and kind of destination; beyond it, new clients are not pinned",
);
pub(super) const METRICS: [Description; 2] = [HELD, LIMIT];

/// How many clients may be pinned: as many as the node may track connections of.
pub(crate) fn room() -> u32 {
    let tracked = sysctl::Root::system().read("/proc/sys/net/netfilter/nf_conntrack_max").ok();
    tracked.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Writes how full the maps of pins are at the end of the page. Linux says it from 6.16 on.
pub(crate) fn collector() -> Arc<dyn Collector> {
    Arc::new(Fullness)
}

struct Fullness;

impl Collector for Fullness {
    fn collect(&self, page: &mut Page) {
        let Ok(mut connection) = Connection::open() else { return };
        let held = Family::BOTH.map(|family| (family, count_pins(&mut connection, family)));
        let known = || held.iter().filter_map(|(family, pins)| Some((family.to_string(), pins.as_ref()?)));
        if known().next().is_none() {
            return;
        }
        page.family(&HELD);
        for (family, pins) in known() {
            for (destination, count) in ["address", "nodeport"].into_iter().zip(pins) {
                let labels = label_text([("ip_family", &*family), ("destination", destination)]);
                page.count(HELD.name, &labels, *count as u64);
            }
        }
        page.family(&LIMIT);
        page.count(LIMIT.name, "", u64::from(room_for_pins(room())));
    }
}
