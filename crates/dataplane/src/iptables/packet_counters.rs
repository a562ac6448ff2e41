//! Mode iptables: packets that the kernel counts in its nfacct objects, shown on `/metrics` as they are then.

use std::io;
use std::sync::Arc;

use kernel::iptables::{Tables, ToolError};
use kernel::nfacct;
use model::{Family, Refusal};

use super::{CANARY, Counters, INVALID_COUNTER, LOCALHOST_COUNTER, refusal_counter};
use crate::metrics::{Collector, Description, Page};
use crate::nftables::refusals;

const INVALID_DROPPED: Description = Description::counter(
    "kubeproxy_iptables_ct_state_invalid_dropped_packets_total",
    &[],
    "Packets that were dropped because conntrack found them invalid",
);
const LOCALHOST_ACCEPTED: Description = Description::counter(
    "kubeproxy_iptables_localhost_nodeports_accepted_packets_total",
    &[],
    "Packets to node ports on 127.0.0.1",
);
pub(super) const METRICS: [Description; 2] = [INVALID_DROPPED, LOCALHOST_ACCEPTED];

const COUNTED: [(&str, Description); 2] =
    [(INVALID_COUNTER, INVALID_DROPPED), (LOCALHOST_COUNTER, LOCALHOST_ACCEPTED)];

/// Keeps the objects that rules count in.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    /// A rule was taken that counts: no kernel unlearns it.
    is_proven: bool,
    /// What was logged last: that nothing counts.
    is_told: bool,
}

impl Keeper {
    /// Have the objects, and say which of them rules may name. Ask before each full sync: without the object, or the
    /// module that matches it, a rule that names it is refused, and the whole table with it.
    pub(super) fn ensure<T: Tables>(&mut self, tables: &mut T) -> Counters {
        let refusals = refusal_counters().try_for_each(|name| nfacct::ensure(&name)).is_ok();
        let usable = self.usable(COUNTED.map(|(counter, _)| nfacct::ensure(counter)), tables);
        Counters { refusals: refusals && usable != Counters::default(), ..usable }
    }

    fn usable<T: Tables>(&mut self, made: [io::Result<()>; 2], tables: &mut T) -> Counters {
        let [invalid, localhost] = made.each_ref().map(Result::is_ok);
        let trouble = made.into_iter().find_map(Result::err).map(|error| error.to_string());
        let trouble = trouble.or_else(|| self.try_rule(tables).err().map(|error| error.to_string()));
        self.tell(trouble.as_deref());
        match trouble {
            None => Counters { invalid, localhost, refusals: false },
            Some(_) => Counters::default(),
        }
    }

    /// Whether rules of either family may count.
    fn try_rule<T: Tables>(&mut self, tables: &mut T) -> Result<(), ToolError> {
        if self.is_proven {
            return Ok(());
        }
        // No packet comes to that chain, and the sync empties it.
        let rule = format!("-m nfacct --nfacct-name {INVALID_COUNTER}");
        match tables.try_rule(CANARY, Some(&rule)) {
            // That says nothing about the rule, and may not hold for the sync itself. If it does, this is asked again.
            Err(ToolError::Locked { .. } | ToolError::Slow { .. }) => Ok(()),
            outcome => outcome.inspect(|()| self.is_proven = true),
        }
    }

    fn tell(&mut self, trouble: Option<&str>) {
        let metrics = COUNTED.map(|(_, metric)| metric.name).join(",");
        match (trouble, self.is_told) {
            (Some(error), false) => {
                tracing::info!(
                    metrics,
                    error,
                    "The kernel cannot count packets for these metrics; they stay absent"
                );
            }
            (None, true) => tracing::info!(metrics, "The kernel counts packets for these metrics"),
            _ => {}
        }
        self.is_told = trouble.is_some();
    }
}

/// Remove the objects, as far as no rule counts in them.
pub(super) fn remove() {
    let own = COUNTED.map(|(counter, _)| counter.to_owned());
    for counter in own.into_iter().chain(refusal_counters()) {
        if let Err(error) = nfacct::remove(&counter) {
            tracing::info!(counter, %error, "Failed to remove the nfacct counter");
        }
    }
}

fn refusal_counters() -> impl Iterator<Item = String> {
    Family::BOTH.into_iter().flat_map(|family| Refusal::COUNTED.map(|why| refusal_counter(family, why)))
}

/// Writes what was counted at the end of the page.
pub(super) fn collector() -> Arc<dyn Collector> {
    Arc::new(PacketCounters)
}

struct PacketCounters;

impl Collector for PacketCounters {
    fn collect(&self, page: &mut Page) {
        // Without the objects nothing counts; that was logged.
        let Ok(all) = nfacct::all() else { return };
        for (counter, metric) in COUNTED {
            if let Some(packets) = all.get(counter) {
                page.family(&metric);
                page.count(metric.name, "", *packets);
            }
        }
        refusals::write_counts(page, |family, why| all.get(&refusal_counter(family, why)).copied());
    }
}

#[cfg(test)]
#[path = "../../tests/unit/iptables_packet_counters.rs"]
mod tests;
