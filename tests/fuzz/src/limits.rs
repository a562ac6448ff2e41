//! What one input may cost.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::{ALLOCATOR, Target};

/// Time of this thread on a processor: a machine that is busy with other things changes nothing.
const LONGEST: Duration = Duration::from_secs(10);

/// How much memory a target may hold at a time, beyond what it held before.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Whatever the input.
    pub fixed: usize,
    /// For each byte of the input.
    pub per_byte: usize,
}

impl Limits {
    fn memory(&self, input: &[u8]) -> usize {
        self.fixed + self.per_byte * input.len()
    }
}

/// Run one input; panics if it breaks a limit.
pub fn run(target: &Target, input: &[u8]) {
    let held = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let started = processor_time();
    (target.run)(input);
    let took = processor_time().saturating_sub(started);
    let peak = ALLOCATOR.peak_usage().saturating_sub(held);
    let most = target.limits.memory(input);
    assert!(peak <= most, "{}: {peak} bytes of memory for {} bytes of input", target.name, input.len());
    assert!(took <= LONGEST, "{}: {took:?} for {} bytes of input", target.name, input.len());
}

fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
