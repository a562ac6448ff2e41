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
    let awaited: Vec<String> = awaited(report).iter().map(|what| format!("{what:?}")).collect();
    let body = format!("{{\"ready\":{is_ready},\"awaiting\":[{}]}}\n", awaited.join(","));
    answer::json(answer::status(is_ready), body)
}

/// What is to happen before the agent is ready, or follows all of its configuration, in the words of a log.
pub(super) fn awaited(report: &Report) -> Vec<String> {
    let missing = Family::BOTH.into_iter().filter(|family| report.families[family.index()].is_none());
    let syncs = missing.map(|family| format!("the first sync of {family}"));
    match report.awaited {
        Some(Awaited::Lists) => {
            vec!["the first list of Services, EndpointSlices, the Node and ServiceCIDRs".into()]
        }
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
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn report(families: [Option<(u64, bool)>; 2], is_eligible: bool) -> Report {
        let family = |(updated, is_healthy)| FamilyReport { updated: at(updated), is_healthy };
        Report { now: at(100), is_eligible, awaited: None, families: families.map(|of| of.map(family)) }
    }

    const NOW: &str = "1970-01-01T00:01:40.000000Z";

    fn text(report: &Report, page: fn(&Report) -> Answer) -> (u16, String) {
        let answer = page(report);
        assert_eq!(answer.headers()["content-type"], "application/json");
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
        answer::read(answer)
    }

    #[test]
    fn healthy_in_the_words_of_kube_proxy() {
        let status = "\"status\":{\"IPv4\":{\"lastUpdated\":\"1970-01-01T00:00:50.000000Z\",\"healthy\":true},\
                      \"IPv6\":{\"lastUpdated\":\"1970-01-01T00:01:00.000000Z\",\"healthy\":true}}";
        let report = report([Some((50, true)), Some((60, true))], true);
        let wanted = format!(
            "{{\"lastUpdated\":\"{NOW}\",\"currentTime\":\"{NOW}\",\"nodeEligible\":true,\"healthy\":true,{status}}}"
        );
        assert_eq!(text(&report, healthz), (200, wanted));
        let wanted =
            format!("{{\"lastUpdated\":\"{NOW}\",\"currentTime\":\"{NOW}\",\"healthy\":true,{status}}}");
        assert_eq!(text(&report, livez), (200, wanted));
        assert_eq!(text(&report, readyz), (200, "{\"ready\":true,\"awaiting\":[]}\n".into()));
    }

    #[test]
    fn before_the_first_sync_healthy_but_not_ready() {
        let report = report([None, None], true);
        let wanted = format!(
            "{{\"lastUpdated\":\"{NOW}\",\"currentTime\":\"{NOW}\",\"nodeEligible\":true,\"healthy\":true}}"
        );
        assert_eq!(text(&report, healthz), (200, wanted));
        let wanted =
            "{\"ready\":false,\"awaiting\":[\"the first sync of IPv4\",\"the first sync of IPv6\"]}\n";
        assert_eq!(text(&report, readyz), (503, wanted.into()));
        let waiting = Report { awaited: Some(Awaited::Lists), ..report };
        assert!(text(&waiting, readyz).1.contains("the first list of Services"));
        let changing = Report { awaited: Some(Awaited::ChangedNode), ..waiting };
        assert!(
            text(&changing, readyz).1.contains("\"the first sync of IPv6\",\"the Node object, addresses")
        );
    }

    #[test]
    fn a_change_that_is_waited_for_is_told_and_leaves_the_agent_ready() {
        let ready = report([Some((50, true)), Some((60, true))], true);
        let changing = Report { awaited: Some(Awaited::ChangedNode), ..ready };
        let (code, body) = text(&changing, readyz);
        assert_eq!(
            (code, body.starts_with("{\"ready\":true,\"awaiting\":[\"the Node object, ")),
            (200, true)
        );
        assert_eq!(text(&changing, healthz).0, 200);
    }

    #[test]
    fn a_stuck_family_is_told_from_a_leaving_node() {
        let stuck = report([Some((50, false)), Some((60, true))], true);
        let (code, body) = text(&stuck, livez);
        assert_eq!(code, 503);
        assert!(body.starts_with("{\"lastUpdated\":\"1970-01-01T00:01:00.000000Z\""), "the latest: {body}");
        assert!(body.contains("\"healthy\":false,\"status\":{\"IPv4\":{"), "{body}");
        assert_eq!(text(&stuck, healthz).0, 503);
        let leaving = report([Some((50, true)), None], false);
        let (code, body) = text(&leaving, healthz);
        assert_eq!(code, 503);
        assert!(body.contains("\"nodeEligible\":false,\"healthy\":true"), "{body}");
        assert_eq!(text(&leaving, livez).0, 200);
        let (_, body) = text(&report([None, None], false), healthz);
        assert!(body.starts_with("{\"lastUpdated\":\"0001-01-01T00:00:00Z\""), "{body}");
    }
}
