//! Waiting for a condition instead of for time.
//!
//! A deadline ends a test that hangs; it is no statement about speed, which the benchmark measures. It is therefore
//! generous, for a busy machine, and can be multiplied, for an emulated one.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Multiplies every deadline; see docs/testing.md.
pub const PATIENCE: &str = "POINTSMAN_PATIENCE";

/// The deadline of everything that should happen at once. [`wait_until`] multiplies it, others ask for [`patient`]. More
/// than the minute after which the agent looks at iptables rules although nothing tells of a change.
pub const SOON: Duration = Duration::from_secs(120);

/// The deadline of one answer: long enough for lost packets to be sent again, so that a loss is seen as slowness and not
/// as failure. Where silence is a possible answer, asking so long would only take time.
pub const ANSWER: Duration = Duration::from_secs(20);

/// What [`PATIENCE`] says, 1 unless it is set.
fn factor() -> f64 {
    static FACTOR: LazyLock<f64> = LazyLock::new(|| match std::env::var(PATIENCE) {
        Err(_) => 1.0,
        Ok(text) => match text.parse() {
            Ok(factor) if (1.0..=1000.0).contains(&factor) => factor,
            _ => panic!("{PATIENCE} is {text:?}, not a number from 1 to 1000"),
        },
    });
    *FACTOR
}

/// A deadline as long as the machine needs it, by [`PATIENCE`].
pub fn patient(deadline: Duration) -> Duration {
    deadline.mul_f64(factor())
}

/// How often to repeat something that a machine which needs no patience does so often, so that it takes as long.
pub fn fewer(times: u16) -> u16 {
    (f64::from(times) / factor()).ceil() as u16
}

/// Ask again until the condition holds; `false` if it never did before the deadline.
pub fn wait_until(deadline: Duration, condition: impl FnMut() -> bool) -> bool {
    watch_for(patient(deadline), condition)
}

/// Look for so long, whatever the machine, whether something comes about that may not or need not.
pub fn watch_for(time: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    loop {
        if condition() {
            return true;
        }
        let waited = started.elapsed();
        if waited >= time {
            return false;
        }
        // What is long in coming is asked for less often: most conditions run a tool.
        std::thread::sleep((waited / 16).clamp(Duration::from_millis(2), Duration::from_millis(50)));
    }
}

/// Let time pass of which the test needs just so much, such as a timeout in the kernel.
pub fn let_pass(time: Duration) {
    watch_for(time, || false);
}
