//! Mode iptables: packets that the kernel counts in its nfacct objects, shown on `/metrics` as they are then.

use std::fmt::Display;
use std::sync::Arc;

use dataplane::iptables::{Counters, INVALID_COUNTER, LOCALHOST_COUNTER};
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

/// Whether rules may count: the match is a module of its own, of both families, and without it no rule could be
/// written at all. Tried in a chain that no packet comes to and that the first sync empties.
fn can_count<T: Tables>(tables: &mut T) -> bool {
    let script = format!(
        "*filter\n:KUBE-PROXY-CANARY - [0:0]\n-A KUBE-PROXY-CANARY -m nfacct --nfacct-name {INVALID_COUNTER}\nCOMMIT\n"
    );
    tables.restore(&script).map_err(|error| report(&error)).is_ok()
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
    use kernel::iptables::{Stamp, Table, ToolError};

    /// Takes anything, or nothing.
    struct Stub(bool);

    impl Tables for Stub {
        fn save(&mut self, _: Table) -> Result<String, ToolError> {
            Ok(String::new())
        }
        fn restore(&mut self, script: &str) -> Result<(), ToolError> {
            assert!(script.contains(&format!("-m nfacct --nfacct-name {INVALID_COUNTER}\n")), "{script}");
            let error = || ToolError::Start { tool: "x".into(), source: std::io::ErrorKind::NotFound.into() };
            if self.0 { Ok(()) } else { Err(error()) }
        }
        fn stamp(&mut self) -> Option<Stamp> {
            None
        }
        fn has_random_fully(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_kernel_that_lacks_the_match_counts_nothing() {
        assert!(can_count(&mut Stub(true)) && !can_count(&mut Stub(false)));
    }
}
