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
