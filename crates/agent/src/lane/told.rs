//! What a sync changed for clients of single services, for those who listen at `-v 2`.

use dataplane::Refusing;
use model::{Family, Refusal};

use telemetry::logging::OF_SERVICES;

pub(super) fn refusing(family: Family, refusing: &Refusing) {
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
        tracing::info!(target: OF_SERVICES, %family, %service, reason, "Service refuses clients");
    }
    if refusing.others > 0 {
        tracing::info!(target: OF_SERVICES, %family, services = refusing.others, "More services refuse clients");
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
            let (_, log) = heard(&[level], || refusing(Family::V4, &found));
            assert_eq!(log.lines().count(), lines, "{level}: {log}");
            assert_eq!(
                log.contains("service=\"default/web\" reason=\"it has no usable endpoint\""),
                lines > 0,
                "{log}"
            );
        }
    }
}
