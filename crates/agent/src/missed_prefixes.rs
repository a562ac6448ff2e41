//! A warning about `nodePortAddresses` that match no address of this node: node ports are dead then, and nothing else
//! would say so.

use std::time::{Duration, Instant};

use ipnet::IpNet;
use model::Family;

/// Addresses that come and go are worth a line this often.
const PAUSE: Duration = Duration::from_secs(60);
/// Prefixes in one log line; more say nothing more.
const NAMED: usize = 5;

/// What was said, by [`Family::index`].
#[derive(Debug, Default)]
pub(crate) struct MissedPrefixes {
    told: [bool; 2],
    last: [Option<Instant>; 2],
}

impl MissedPrefixes {
    /// Say what is new about the prefixes that match nothing now; `false` if it is too early for that.
    pub(crate) fn note(&mut self, family: Family, missed: &[IpNet], now: Instant) -> bool {
        let (told, last) = (&mut self.told[family.index()], &mut self.last[family.index()]);
        match (*told, !missed.is_empty()) {
            (false, true) if last.is_some_and(|last| now.saturating_duration_since(last) < PAUSE) => {
                return false;
            }
            (false, true) => {
                let some: Vec<String> = missed.iter().take(NAMED).map(IpNet::to_string).collect();
                tracing::warn!(
                    %family, prefixes = missed.len(), named = some.join(","),
                    "No address of this node matches nodePortAddresses; node ports are not served"
                );
                *last = Some(now);
            }
            (true, false) => {
                tracing::info!(%family, "Resolved: an address of this node lies in the prefixes of nodePortAddresses");
            }
            _ => {}
        }
        *told = !missed.is_empty();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use telemetry::logging::capture::heard;

    #[test]
    fn it_is_told_once_and_resolved_once_and_not_too_often() {
        let nets: Vec<IpNet> = (0..9).map(|net| format!("10.{net}.0.0/16").parse().unwrap()).collect();
        let (start, mut missed) = (Instant::now(), MissedPrefixes::default());
        let (_, log) = heard(&["v=0"], || {
            for _ in 0..3 {
                assert!(missed.note(Family::V4, &nets, start));
            }
            assert!(missed.note(Family::V4, &[], start));
            assert!(!missed.note(Family::V4, &nets, start), "it comes and goes");
            assert!(missed.note(Family::V4, &[], start));
            assert!(missed.note(Family::V6, &[], start), "nothing to say");
            assert!(missed.note(Family::V4, &nets, start + PAUSE));
        });
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 3, "{log}");
        assert!(lines[0].contains("family=\"IPv4\" prefixes=9 named=\"10.0.0.0/16,10.1.0.0/16,"), "{log}");
        assert!(!lines[0].contains("10.5.0.0/16"), "{log}");
        assert!(lines[1].contains("Resolved: ") && lines[2].contains("No address of this node"), "{log}");
    }
}
