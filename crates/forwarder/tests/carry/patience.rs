//! How long a test waits before it fails: long enough for a busy machine, and longer where `POINTSMAN_PATIENCE` asks for it.

use std::time::{Duration, Instant};

/// What should happen at once.
pub(crate) fn deadline() -> Duration {
    let factor = std::env::var("POINTSMAN_PATIENCE").map_or(1.0, |factor| factor.parse().unwrap());
    Duration::from_secs(120).mul_f64(factor)
}

/// Whether it becomes true before the deadline.
pub(crate) fn soon(mut is_true: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + deadline();
    while !is_true() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}
