//! What the mode counts: virtual servers, destinations, those that drain.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::Family;

use super::Held;
use crate::metrics::{Collector, Description, Kind, Page, label_text};

const OF_FAMILY: &[&str] = &["ip_family"];

const SERVERS: Description = Description {
    name: "pointsman_ipvs_virtual_servers",
    kind: Kind::Gauge,
    labels: OF_FAMILY,
    help: "Virtual servers that services have in IPVS",
};
const DESTINATIONS: Description = Description {
    name: "pointsman_ipvs_destinations",
    kind: Kind::Gauge,
    labels: OF_FAMILY,
    help: "Destinations in use of all virtual servers",
};
const DRAINING: Description = Description {
    name: "pointsman_ipvs_draining_destinations",
    kind: Kind::Gauge,
    labels: OF_FAMILY,
    help: "Destinations whose endpoint is gone and that stay until their connections end",
};

pub(super) const METRICS: [Description; 3] = [SERVERS, DESTINATIONS, DRAINING];

pub(super) fn collector(held: Arc<Held>) -> Arc<dyn Collector> {
    Arc::new(Gauges(held))
}

struct Gauges(Arc<Held>);

impl Collector for Gauges {
    fn collect(&self, page: &mut Page) {
        let Gauges(held) = self;
        let families =
            [(&SERVERS, &held.servers), (&DESTINATIONS, &held.destinations), (&DRAINING, &held.draining)];
        for (about, counts) in families {
            page.family(about);
            for family in Family::BOTH {
                let labels = label_text([("ip_family", &*family.to_string())]);
                page.count(about.name, &labels, counts[family.index()].load(Ordering::Relaxed) as u64);
            }
        }
    }
}
