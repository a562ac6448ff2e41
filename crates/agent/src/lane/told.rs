//! What a sync changed for clients of single services, for those who listen at `-v 2`.

use std::time::Instant;

use cluster::SharedAllowance;
use dataplane::Refusing;
use model::{Family, Refusal};

use telemetry::logging::OF_SERVICES;

/// No service: the lines that count the others have a share, too.
const MORE: &str = "";

/// Endpoints may come and go all the time: services have shares of what is said, and the rest is counted.
pub(super) fn refusing(family: Family, refusing: &Refusing, allowance: &mut SharedAllowance, now: Instant) {
    let mut others = refusing.others;
    for (service, why) in &refusing.services {
        let reason = match why {
            Refusal::NoEndpoints => "it has no usable endpoint",
            Refusal::NoLocalEndpoints => "its policy is Local and no usable endpoint is on this node",
            // No service asks for these.
            Refusal::SourceRange
            | Refusal::UnlistedPort
            | Refusal::UnallocatedAddress
            | Refusal::NotCarried => continue,
        };
        if !allowance.take(service, now) {
            others += 1;
            continue;
        }
        tracing::info!(target: OF_SERVICES, %family, %service, reason, "Service refuses clients");
    }
    if others > 0 && allowance.take(&MORE.into(), now) {
        tracing::info!(target: OF_SERVICES, %family, services = others, "More services refuse clients");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use telemetry::logging::capture::heard;

    #[test]
    fn services_that_refuse_are_named_from_level_2_on() {
        let found = Refusing { services: vec![("default/web".into(), Refusal::NoEndpoints)], others: 3 };
        for (level, lines) in [("v=1", 0), ("v=2", 2), ("v=4", 2)] {
            let mut allowance = SharedAllowance::default();
            let (_, log) = heard(&[level], || refusing(Family::V4, &found, &mut allowance, Instant::now()));
            assert_eq!(log.lines().count(), lines, "{level}: {log}");
            assert_eq!(
                log.contains("service=\"default/web\" reason=\"it has no usable endpoint\""),
                lines > 0,
                "{log}"
            );
        }
    }
    #[test]
    fn a_service_whose_endpoints_come_and_go_is_named_a_few_times() {
        let mut allowance = SharedAllowance::default();
        let (one, now) = (|name: &str| vec![(name.into(), Refusal::NoEndpoints)], Instant::now());
        let (_, log) = heard(&["v=2"], || {
            for _ in 0..1_000 {
                let found = Refusing { services: one("loud/web"), others: 0 };
                refusing(Family::V4, &found, &mut allowance, now);
            }
            refusing(Family::V4, &Refusing { services: one("quiet/web"), others: 0 }, &mut allowance, now);
        });
        assert!(log.lines().count() < 10 && log.contains("quiet/web"), "{log}");
    }
}
