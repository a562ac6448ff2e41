//! Times as Prometheus has them.

use std::time::{SystemTime, UNIX_EPOCH};

/// Since the epoch; 0 for a clock that was never set.
pub(super) fn seconds(at: SystemTime) -> f64 {
    at.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Seconds from `millis` since the epoch until `now`. Clocks of two machines may disagree: never below zero.
pub(super) fn since(millis: i64, now: SystemTime) -> f64 {
    (seconds(now) - millis as f64 / 1e3).max(0.0)
}
