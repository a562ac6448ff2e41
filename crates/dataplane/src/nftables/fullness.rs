//! How full the maps of pins of ClientIP affinity are, on the page `/metrics`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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

/// Before Linux 6.16 each pin is counted. This times longer than that takes, the numbers are shown again.
const REST: u32 = 100;

/// Writes how full the maps of pins are at the end of the page.
pub(crate) fn collector() -> Arc<dyn Collector> {
    Arc::new(Fullness::default())
}

#[derive(Default)]
struct Fullness(Mutex<Option<Counted>>);

/// Clients that are pinned, by family, at an address and at a node port; `None` where there is no table.
type Pins = [(Family, Option<[usize; 2]>); 2];

#[derive(Clone, Copy)]
struct Counted {
    pins: Pins,
    at: Instant,
    took: Duration,
}

impl Fullness {
    fn pins(&self) -> Option<Pins> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Counted { pins, at, took }) = *counted
            && at.elapsed() < took * REST
        {
            return Some(pins);
        }
        let at = Instant::now();
        let mut connection = Connection::open().ok()?;
        let pins = Family::BOTH.map(|family| (family, count_pins(&mut connection, family)));
        *counted = Some(Counted { pins, at, took: at.elapsed() });
        Some(pins)
    }
}

impl Collector for Fullness {
    fn collect(&self, page: &mut Page) {
        let Some(held) = self.pins() else { return };
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
