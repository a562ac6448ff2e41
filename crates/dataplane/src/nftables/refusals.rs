//! The metrics of packets that rules refuse, by reason.

use std::sync::Arc;

use kernel::nft::{Connection, Transport};
use model::{Family, Refusal};

use crate::metrics::{Collector, Description, Page, label_text};
use table::{TABLE, counter, nft_family};

const DROPPED: Description = Description::counter(
    "pointsman_dropped_packets_total",
    &["ip_family", "reason"],
    "Packets to addresses of services that were dropped, by reason",
);
const REJECTED: Description = Description::counter(
    "pointsman_rejected_packets_total",
    &["ip_family", "reason"],
    "Packets to addresses of services that were rejected, by reason",
);
pub(crate) const METRICS: [Description; 2] = [DROPPED, REJECTED];

/// Writes them at the end of the page.
pub(crate) fn collector() -> Arc<dyn Collector> {
    Arc::new(Refusals)
}

struct Refusals;

impl Collector for Refusals {
    fn collect(&self, page: &mut Page) {
        let Ok(mut connection) = Connection::open() else { return };
        write(&mut connection, page);
    }
}

fn write<T: Transport>(transport: &mut T, page: &mut Page) {
    write_counts(page, |family, why| {
        transport.packets_counted(nft_family(family), TABLE, counter(why)).ok().flatten()
    });
}

/// Write what was counted in a mode. What cannot be read has no value.
pub(crate) fn write_counts(page: &mut Page, mut packets: impl FnMut(Family, Refusal) -> Option<u64>) {
    for (metric, kind) in [(&DROPPED, "dropped-"), (&REJECTED, "rejected-")] {
        let of_kind = || Refusal::COUNTED.into_iter().filter(|why| counter(*why).starts_with(kind));
        let mut is_begun = false;
        for family in Family::BOTH {
            for why in of_kind() {
                let Some(packets) = packets(family, why) else { continue };
                if !std::mem::replace(&mut is_begun, true) {
                    page.family(metric);
                }
                let labels = label_text([("ip_family", &*family.to_string()), ("reason", why.word())]);
                page.count(metric.name, &labels, packets);
            }
        }
    }
}
