//! Mode iptables as the agent sees it: what it needs, how it is built, what it measures.

use std::time::Duration;

use kernel::iptables::{Chosen, Missing, Table, Tables, Tools};
use model::Family;

use super::{Iptables, WITHOUT_NOTIFICATIONS, leftovers, packet_counters};
use crate::leftovers::{Leftovers, Removal, Search};
use crate::localhost::{self, Listening};
use crate::metrics::{Description, ModeMetrics, RuleMetrics};
use crate::mode::{BuildOptions, Holdings, Mode, Prepared, Running, SavedTables, Unavailable};
use crate::nftables;

pub(crate) struct IptablesMode;

/// The line in [`MODES`](crate::MODES).
pub(crate) static MODE: IptablesMode = IptablesMode;

pub(super) const NAME: &str = "iptables";

impl Mode for IptablesMode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn metrics(&self) -> &'static ModeMetrics {
        &METRICS
    }

    fn holdings(&self) -> Holdings {
        Holdings { save: Some(save), ..Holdings::default() }
    }

    fn prepare(&self, because: Option<&str>) -> Result<Box<dyn Prepared>, Unavailable> {
        match Tools::choose() {
            Ok(chosen) => Ok(Box::new(Ready(chosen))),
            Err(error) => Err(Unavailable::because(cannot_work(because), error)),
        }
    }

    fn remove(&self, search: Search) -> Removal {
        leftovers::remove(search)
    }

    fn is_there(&self) -> bool {
        leftovers::are_there()
    }

    /// With time for a look that comes late, and for the tools.
    fn rewritten_within(&self) -> Duration {
        2 * WITHOUT_NOTIFICATIONS
    }
}

/// The tables of both families that hold rules of this mode, by the tools that are used on this node.
fn save() -> Vec<SavedTables> {
    let chosen = match Tools::choose() {
        Ok(chosen) => chosen,
        Err(error) => return vec![("iptables-save".to_owned(), Err(Unavailable::new(error)))],
    };
    let tools = ["iptables-save", "ip6tables-save"].into_iter().zip(chosen.tools);
    let tables = tools.filter_map(|(name, tools)| Some((name, tools?)));
    let saved = |(name, mut tools): (&str, Tools)| {
        let both: Result<Vec<String>, _> = Table::BOTH.into_iter().map(|table| tools.save(table)).collect();
        (name.to_owned(), both.map(|both| both.concat()).map_err(Unavailable::new))
    };
    tables.map(saved).collect()
}

fn cannot_work(because: Option<&str>) -> String {
    match because {
        None => "mode iptables cannot work here".to_owned(),
        Some(because) => {
            format!("mode iptables, which is used because no mode is set and {because}, cannot work here")
        }
    }
}

/// Some tools can be used.
struct Ready(Chosen);

impl Prepared for Ready {
    fn tell(&self) {
        let Ready(chosen) = self;
        let version = chosen.tools.iter().flatten().find_map(Tools::version);
        let version = version.map(|version| version.to_string()).unwrap_or_default();
        tracing::info!(
            variant = %chosen.variant, version, why = %chosen.why,
            "Writing rules with the iptables tools"
        );
        for (family, missing) in Family::BOTH.iter().zip(&chosen.missing) {
            match missing {
                None => {}
                Some(why @ Missing::NoIpv6) => {
                    tracing::info!(%family, %why, "No rules are written for this family");
                }
                // The node may well have no such addresses; services that it has are an error then.
                Some(why) => tracing::warn!(%family, %why, "No rules can be written for this family"),
            }
        }
    }

    fn leftovers(&self) -> Leftovers {
        let own = self.0.variant;
        Leftovers::new(NAME, move || leftovers::remove_strays(own))
    }

    fn build(self: Box<Self>, options: &BuildOptions<'_>) -> Result<Running, Unavailable> {
        let Ready(chosen) = *self;
        let is_absent = chosen.missing.map(|missing| matches!(missing, Some(Missing::NoIpv6)));
        let backend = Iptables::new(chosen.tools, options.setup)
            .keeping_counters()
            .trying_matches()
            .without_families(is_absent);
        let backend = Listening::new(backend, options.setup);
        let collectors = vec![packet_counters::collector(), localhost::collector(backend.figures())];
        Ok(Running { backend: Box::new(backend), collectors, traffic: None })
    }
}

const OF_FAMILY: &[&str] = &["ip_family"];
const OF_TABLE: &[&str] = &["table", "ip_family"];

pub(crate) const RESTORE_FAILURES: Description = Description::counter(
    "kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
    OF_FAMILY,
    "Syncs that iptables-restore refused; the previous rules remain active and all rules are retried",
);

static METRICS: ModeMetrics = ModeMetrics {
    times_partial_syncs: true,
    failures: RESTORE_FAILURES,
    cleanup_failures: None,
    rules: Some(RuleMetrics {
        tables: [Table::Filter.name(), Table::Nat.name()],
        total: Description::gauge(
            "kubeproxy_sync_proxy_rules_iptables_total",
            OF_TABLE,
            "Rules of kube-proxy in this table of iptables",
        ),
        last: Description::gauge(
            "kubeproxy_sync_proxy_rules_iptables_last",
            OF_TABLE,
            "Rules that the last sync wrote to this table of iptables",
        ),
        partial_failures: Description::counter(
            "kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total",
            OF_FAMILY,
            "Partial syncs that iptables-restore refused, so that all rules were written",
        ),
    }),
    upstream: &packet_counters::METRICS,
    gated: None,
    own: &nftables::refusals::METRICS,
};

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::iptables::ChooseError;

    #[test]
    fn a_mode_that_nobody_chose_is_explained_when_it_fails() {
        let error = |because| {
            let missing = || Missing::NotInstalled { program: "iptables" };
            let error = ChooseError(Box::new([missing(), missing()]));
            Unavailable::because(cannot_work(because), error).to_string()
        };
        let chosen = error(None);
        assert!(chosen.starts_with("mode iptables cannot work here: iptables, "), "{chosen}");
        let default = error(Some("the kernel is old"));
        let wanted =
            "mode iptables, which is used because no mode is set and the kernel is old, cannot work here: ";
        assert!(default.starts_with(wanted), "{default}");
    }
}
