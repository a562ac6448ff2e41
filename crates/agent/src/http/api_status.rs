//! `/pointsman/v1/status`: which node this is, whether its rules keep up, and the last syncs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cluster::timestamp::format_micros;
use config::version;
use model::Family;
use serde_json::{Map, Value, json};

use super::{Context, probes};
use crate::health::Report;
use telemetry::metrics::{RecentSync, Remembered};

pub(super) const STATUS: &str = "/pointsman/v1/status";

/// Whose status it is.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) node: String,
    pub(super) mode: &'static str,
}

/// Names and meanings are documented in `docs/ask.md` and stay.
pub(super) fn status(identity: &Identity, context: &Context) -> Value {
    document(
        identity,
        context.started,
        &context.health.report(),
        &context.metrics.recent_syncs().remembered(),
    )
}

fn document(identity: &Identity, started: SystemTime, report: &Report, remembered: &Remembered) -> Value {
    let families =
        Family::BOTH.into_iter().map(|family| (family.to_string(), of_family(family, report, remembered)));
    json!({
        "version": version::FULL,
        "node": identity.node,
        "mode": identity.mode,
        "now": format_micros(report.now),
        "started": format_micros(started),
        "ready": report.is_ready(),
        "healthy": report.is_healthy(),
        "nodeEligible": report.is_eligible,
        "awaiting": probes::awaited(report),
        "families": families.collect::<Map<_, _>>(),
        "syncCount": remembered.total,
        "syncs": remembered.syncs.iter().map(sync).collect::<Vec<_>>(),
    })
}

fn of_family(family: Family, report: &Report, remembered: &Remembered) -> Value {
    let health = report.families[family.index()];
    let programmed = remembered.programmed[family.index()];
    json!({
        "healthy": health.is_none_or(|health| health.is_healthy),
        "lastUpdated": health.map(|health| format_micros(health.updated)),
        "services": programmed.map(|programmed| programmed.services),
        "endpoints": programmed.map(|programmed| programmed.endpoints),
    })
}

fn sync(sync: &RecentSync) -> Value {
    json!({
        "time": format_micros(sync.ended),
        "unixMicroseconds": micros(sync.ended.duration_since(UNIX_EPOCH).unwrap_or_default()),
        "family": sync.family.to_string(),
        "microseconds": micros(sync.took),
        "full": sync.full,
        "failed": sync.written.is_none(),
        "services": sync.written.map(|written| written.services),
        "bytes": sync.written.map(|written| written.bytes),
    })
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Changes whenever what is shown may be another.
pub(super) fn generation(identity: &Identity, context: &Context) -> impl std::hash::Hash + use<> {
    let report = context.health.report();
    let started = context.started.duration_since(UNIX_EPOCH).unwrap_or_default();
    let families = report.families.map(|family| family.map(|family| family.is_healthy));
    let awaited = report.awaited.map(|awaited| awaited as u8);
    let flags = (report.is_eligible, awaited, report.unread, families);
    (identity.node.clone(), identity.mode, started, context.metrics.recent_syncs().total(), flags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::FamilyReport;
    use telemetry::metrics::Metrics;

    #[test]
    fn a_status_tells_health_and_the_last_syncs() {
        let metrics = Metrics::of_mode("nftables", &config::FeatureGates::default());
        let sync = metrics.sync().of(Family::V6);
        let mut synced = dataplane::Synced { services: 3, full: true, ..Default::default() };
        synced.committed.bytes = 512;
        sync.synced(&synced, Duration::from_millis(2));
        sync.failed(false, Duration::from_micros(7));
        let at = UNIX_EPOCH + Duration::from_secs(60);
        let report = Report {
            now: at,
            is_eligible: true,
            awaited: None,
            unread: None,
            families: [None, Some(FamilyReport { updated: at, is_healthy: false })],
        };
        let identity = Identity { node: "n1".into(), mode: "nftables" };
        let status = document(&identity, UNIX_EPOCH, &report, &metrics.recent_syncs().remembered());
        assert_eq!((&status["node"], &status["healthy"]), (&json!("n1"), &json!(false)));
        assert_eq!(status["awaiting"], json!(["the first sync of IPv4"]));
        assert_eq!(status["families"]["IPv4"]["lastUpdated"], Value::Null);
        assert_eq!(status["families"]["IPv6"]["lastUpdated"], "1970-01-01T00:01:00.000000Z");
        assert_eq!(status["families"]["IPv6"]["healthy"], false);
        let [first, second] = [&status["syncs"][0], &status["syncs"][1]];
        let figures = ["microseconds", "services", "bytes"].map(|name| first[name].as_u64());
        assert_eq!(figures, [Some(2000), Some(3), Some(512)]);
        assert_eq!(
            (&first["failed"], &second["failed"], &second["bytes"]),
            (&json!(false), &json!(true), &Value::Null)
        );
    }
}
