//! What the probes say, byte for byte.

use super::*;
use std::time::{Duration, UNIX_EPOCH};

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn report(families: [Option<(u64, bool)>; 2], is_eligible: bool) -> Report {
    let family = |(updated, is_healthy)| FamilyReport { updated: at(updated), is_healthy };
    Report {
        now: at(100),
        is_eligible,
        awaited: None,
        unread: None,
        families: families.map(|of| of.map(family)),
    }
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
    let wanted = format!("{{\"lastUpdated\":\"{NOW}\",\"currentTime\":\"{NOW}\",\"healthy\":true,{status}}}");
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
    let wanted = "{\"ready\":false,\"awaiting\":[\"the first sync of IPv4\",\"the first sync of IPv6\"]}\n";
    assert_eq!(text(&report, readyz), (503, wanted.into()));
    let broken =
        Report { awaited: Some(Awaited::Lists), unread: Some("a\u{1b}.yaml: x".into()), ..report.clone() };
    assert!(text(&broken, readyz).1.contains("[\"manifests without errors (a\\u001b.yaml: x)\"]"));
    let waiting = Report { awaited: Some(Awaited::Lists), ..report };
    assert!(text(&waiting, readyz).1.contains("the first list of Services"));
    let changing = Report { awaited: Some(Awaited::ChangedNode), ..waiting };
    assert!(text(&changing, readyz).1.contains("\"the first sync of IPv6\",\"the Node object, addresses"));
}

#[test]
fn a_change_that_is_waited_for_is_told_and_leaves_the_agent_ready() {
    let ready = report([Some((50, true)), Some((60, true))], true);
    let changing = Report { awaited: Some(Awaited::ChangedNode), ..ready };
    let (code, body) = text(&changing, readyz);
    assert_eq!((code, body.starts_with("{\"ready\":true,\"awaiting\":[\"the Node object, ")), (200, true));
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
