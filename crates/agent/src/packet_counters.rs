//! Mode iptables: packets that the kernel counts in its nfacct objects, shown on `/metrics` as they are then.

use std::fmt::Display;
use std::sync::Arc;

use dataplane::iptables::{CANARY, Counters, INVALID_COUNTER, LOCALHOST_COUNTER};
use kernel::iptables::Tables;
use kernel::nfacct;

use crate::metrics::{Collector, Description, INVALID_DROPPED, LOCALHOST_ACCEPTED, Page};

const COUNTED: [(&str, Description); 2] =
    [(INVALID_COUNTER, INVALID_DROPPED), (LOCALHOST_COUNTER, LOCALHOST_ACCEPTED)];

/// Have the objects that rules count in; which of them can be used.
pub(crate) fn ensure<T: Tables>(tables: &mut [Option<T>; 2]) -> Counters {
    let made = COUNTED.map(|(counter, _)| nfacct::ensure(counter));
    if let Some(error) = made.iter().find_map(|outcome| outcome.as_ref().err()) {
        report(error);
    }
    let [invalid, localhost] = made.map(|outcome| outcome.is_ok());
    let is_usable = !(invalid || localhost) || tables.iter_mut().flatten().next().is_some_and(can_count);
    Counters { invalid: invalid && is_usable, localhost: localhost && is_usable }
}

/// Whether rules of either family may count.
fn can_count<T: Tables>(tables: &mut T) -> bool {
    // No packet comes to that chain, and the first sync empties it.
    tables.try_counter(CANARY, INVALID_COUNTER).map_err(|error| report(&error)).is_ok()
}

fn report(error: &dyn Display) {
    let metrics = COUNTED.map(|(_, metric)| metric.name).join(",");
    tracing::info!(metrics, %error, "The kernel does not count for these metrics, and they stay absent");
}

/// Writes the two metrics at the end of the page.
pub(crate) fn collector() -> Arc<dyn Collector> {
    Arc::new(PacketCounters)
}

struct PacketCounters;

impl Collector for PacketCounters {
    fn collect(&self, page: &mut Page) {
        for (counter, metric) in COUNTED {
            // Without the object nobody counts; that was said at the start.
            if let Ok(Some(packets)) = nfacct::packets(counter) {
                page.family(metric.name, metric.kind.word(), metric.help);
                page.count(metric.name, "", packets);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::iptables::simulate::Simulator;

    #[test]
    fn a_kernel_that_cannot_count_is_not_asked_to() {
        let mut tables = Simulator::new(false);
        assert!(!can_count(&mut tables));
        tables.add_account(INVALID_COUNTER);
        assert!(can_count(&mut tables));
    }
}
