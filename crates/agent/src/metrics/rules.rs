//! What is counted where services are rules of tables: mode iptables.

use dataplane::RuleCount;
use kernel::iptables::Table;
use model::Family;

use super::per_family::word;
use super::registry::{Description, Kind, Registry};
use super::value::{Counter, Gauge};

const PARTIAL_RESTORE_FAILURES: Description = Description {
    name: "kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total",
    kind: Kind::Counter,
    labels: &["ip_family"],
    help: "Partial syncs that iptables-restore refused, so that all rules were written",
};
const RULES: Description = Description {
    name: "kubeproxy_sync_proxy_rules_iptables_total",
    kind: Kind::Gauge,
    labels: &["table", "ip_family"],
    help: "Rules of ours in this table of iptables",
};
const RULES_LAST: Description = Description {
    name: "kubeproxy_sync_proxy_rules_iptables_last",
    kind: Kind::Gauge,
    labels: &["table", "ip_family"],
    help: "Rules that the last sync wrote to this table of iptables",
};

/// Of one family; the gauges by [`Table::BOTH`].
#[derive(Clone, Debug)]
pub(super) struct RuleMetrics {
    total: [Gauge; 2],
    last: [Gauge; 2],
    partial_failures: Counter,
}

impl RuleMetrics {
    pub(super) fn register(registry: &mut Registry, family: Family) -> RuleMetrics {
        let mut by_table =
            |about| Table::BOTH.map(|table| registry.gauge(about, &[table.name(), word(family)]));
        RuleMetrics {
            total: by_table(RULES),
            last: by_table(RULES_LAST),
            partial_failures: registry.counter(PARTIAL_RESTORE_FAILURES, &[word(family)]),
        }
    }

    pub(super) fn written(&self, rules: &RuleCount) {
        self.total.iter().zip(rules.total).for_each(|(gauge, count)| gauge.set(count as f64));
        self.last.iter().zip(rules.written).for_each(|(gauge, count)| gauge.set(count as f64));
    }

    pub(super) fn failed(&self, full: bool) {
        if !full {
            self.partial_failures.increment();
        }
    }
}
