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
        match tables.try_counter(CANARY, INVALID_COUNTER) {
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
mod tests {
    use super::*;
    use kernel::iptables::{Stamp, Table};
    use simulate::iptables::Simulator;

    const MADE: Counters = Counters { invalid: true, localhost: true, refusals: false };

    fn made() -> [io::Result<()>; 2] {
        [Ok(()), Ok(())]
    }

    #[test]
    fn a_kernel_that_cannot_count_is_not_asked_to_until_it_can() {
        let (mut tables, mut keeper) = (Simulator::new(false), Keeper::default());
        assert_eq!(keeper.usable(made(), &mut tables), Counters::default());
        tables.add_account(INVALID_COUNTER);
        let denied = || Err(io::ErrorKind::PermissionDenied.into());
        assert_eq!(keeper.usable([denied(), denied()], &mut tables), Counters::default());
        assert_eq!(keeper.usable(made(), &mut tables), MADE);
    }

    /// Has a lock that another process holds, or is never asked.
    struct Locked(bool);

    impl Tables for Locked {
        fn save(&mut self, _: Table) -> Result<String, ToolError> {
            Ok(String::new())
        }
        fn outline(&mut self, _: Table, _: &[(&str, &str)]) -> Result<String, ToolError> {
            Ok(String::new())
        }
        fn restore(&mut self, _: &str) -> Result<(), ToolError> {
            assert!(self.0, "asked again");
            Err(ToolError::Locked { tool: "x".into(), file: "y".into(), seconds: 1 })
        }
        fn stamp(&mut self) -> Option<Stamp> {
            None
        }
        fn has_random_fully(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_lock_says_nothing_about_counting_and_what_is_known_is_not_tried_again() {
        let mut keeper = Keeper::default();
        assert_eq!(keeper.usable(made(), &mut Locked(true)), MADE);
        let mut tables = Simulator::new(false);
        assert_eq!(keeper.usable(made(), &mut tables), Counters::default(), "asked once the lock is free");
        tables.add_account(INVALID_COUNTER);
        assert_eq!(keeper.usable(made(), &mut tables), MADE);
        assert_eq!(keeper.usable(made(), &mut Locked(false)), MADE);
    }
}
