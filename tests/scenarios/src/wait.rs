//! Waiting for a condition instead of for time.
//!
//! A deadline ends a test that hangs; it is no statement about speed, which the benchmark measures. It is therefore
//! generous, for a busy machine, and can be multiplied, for an emulated one.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Multiplies every deadline; see docs/testing.md.
pub const PATIENCE: &str = "POINTSMAN_PATIENCE";

/// The deadline of everything that should happen at once. [`wait_until`] multiplies it, others ask for [`patient`].
pub const SOON: Duration = Duration::from_secs(60);

/// The deadline of one answer: long enough for lost packets to be sent again, so that a loss is seen as slowness and not
/// as failure. Where silence is a possible answer, asking so long would only take time.
pub const ANSWER: Duration = Duration::from_secs(20);

/// A deadline as long as the machine needs it, by [`PATIENCE`].
pub fn patient(deadline: Duration) -> Duration {
    static FACTOR: LazyLock<f64> = LazyLock::new(|| match std::env::var(PATIENCE) {
        Err(_) => 1.0,
        Ok(text) => match text.parse() {
            Ok(factor) if (1.0..=1000.0).contains(&factor) => factor,
            _ => panic!("{PATIENCE} is {text:?}, not a number from 1 to 1000"),
        },
    });
    deadline.mul_f64(*FACTOR)
}

/// Ask again until the condition holds; `false` if it never did before the deadline.
pub fn wait_until(deadline: Duration, condition: impl FnMut() -> bool) -> bool {
    watch_for(patient(deadline), condition)
}

/// Look for so long, whatever the machine, whether something comes about that may not or need not.
pub fn watch_for(time: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + time;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Let time pass of which the test needs just so much, such as a timeout in the kernel.
pub fn let_pass(time: Duration) {
    watch_for(time, || false);
}

/// A time limit on this machine as it is: in proportion to how many others want each of its processors.
pub fn at_load(limit: Duration) -> Duration {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let wanting: f64 = text.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(1.0);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    limit.mul_f64((wanting / processors as f64).max(1.0))
}
