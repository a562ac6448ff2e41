//! `/healthz`, `/livez` and `/readyz` on `healthzBindAddress`. The first two are, byte for byte in their keys and
//! codes, what kube-proxy answers: load balancers read them.

use std::time::SystemTime;

use cluster::timestamp::format_micros;
use model::Family;

use super::Context;
use crate::health::{Awaited, FamilyReport, Report};
use web::answer::{self, Answer};
use web::router::Router;

pub(super) fn router(context: &Context) -> Router {
    let [for_healthz, for_livez, for_readyz] = [context.clone(), context.clone(), context.clone()];
    Router::default()
        .page("/healthz", move |_| {
            let report = for_healthz.health.report();
            for_healthz.metrics.probes().healthz(report.is_healthy());
            healthz(&report)
        })
        .page("/livez", move |_| {
            let report = for_livez.health.report();
            for_livez.metrics.probes().livez(report.is_live());
            livez(&report)
        })
        .page("/readyz", move |_| readyz(&for_readyz.health.report()))
}

fn healthz(report: &Report) -> Answer {
    let is_healthy = report.is_healthy();
    answer::json(answer::status(is_healthy), body(report, is_healthy, Some(report.is_eligible)))
}

fn livez(report: &Report) -> Answer {
    let is_live = report.is_live();
    answer::json(answer::status(is_live), body(report, is_live, None))
}

fn readyz(report: &Report) -> Answer {
    let is_ready = report.is_ready();
    let body = format!("{{\"ready\":{is_ready},\"awaiting\":{}}}\n", serde_json::json!(awaited(report)));
    answer::json(answer::status(is_ready), body)
}

/// What is to happen before the agent is ready, or follows all of its configuration, in the words of a log.
pub(super) fn awaited(report: &Report) -> Vec<String> {
    let missing = Family::BOTH.into_iter().filter(|family| report.families[family.index()].is_none());
    let syncs = missing.map(|family| format!("the first sync of {family}"));
    match report.awaited {
        Some(Awaited::Lists) => vec![report.unread.as_ref().map_or_else(
            || "the first list of Services, EndpointSlices, the Node and ServiceCIDRs".into(),
            |problem| format!("manifests without errors ({problem})"),
        )],
        Some(Awaited::Node) => {
            vec!["the Node object of this node, its addresses or its pod CIDRs".into()]
        }
        Some(Awaited::ChangedNode) => {
            let change = "the Node object, addresses or pod CIDRs that the changed configuration needs; the previous \
                          node name and detection of local traffic stay in use";
            syncs.chain([change.to_owned()]).collect()
        }
        None => syncs.collect(),
    }
}

/// `lastUpdated` is the current time while healthy: clients of old releases look how recent it is.
fn body(report: &Report, is_good: bool, eligible: Option<bool>) -> String {
    let latest = report.families.iter().flatten().map(|family| family.updated).max();
    let updated = if is_good { Some(report.now) } else { latest };
    let eligible = eligible.map(|is| format!("\"nodeEligible\":{is},")).unwrap_or_default();
    let families: Vec<String> = Family::BOTH
        .iter()
        .filter_map(|family| report.families[family.index()].map(|of| family_body(*family, of)))
        .collect();
    let families = match families.is_empty() {
        true => String::new(),
        false => format!(",\"status\":{{{}}}", families.join(",")),
    };
    format!(
        "{{\"lastUpdated\":\"{}\",\"currentTime\":\"{}\",{eligible}\"healthy\":{}{families}}}",
        time(updated),
        time(Some(report.now)),
        report.is_live(),
    )
}

fn family_body(family: Family, report: FamilyReport) -> String {
    let FamilyReport { updated, is_healthy } = report;
    format!("\"{family}\":{{\"lastUpdated\":\"{}\",\"healthy\":{is_healthy}}}", time(Some(updated)))
}

/// Go's zero time stands for never.
fn time(time: Option<SystemTime>) -> String {
    time.map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), format_micros)
}

#[cfg(test)]
#[path = "../../tests/unit/probes.rs"]
mod tests;
