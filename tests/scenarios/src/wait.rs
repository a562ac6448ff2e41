//! Waiting for a condition instead of for time.

use std::time::{Duration, Instant};

/// Ask again until the condition holds; `false` if it never did before the time was up.
pub fn wait_until(timeout: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A time limit on this machine as it is: in proportion to how many others want each of its processors.
pub fn at_load(limit: Duration) -> Duration {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let wanting: f64 = text.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(1.0);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    limit.mul_f64((wanting / processors as f64).max(1.0))
}
