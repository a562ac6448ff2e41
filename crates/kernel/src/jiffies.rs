//! The kernel's own clock, in which it shows some times: ticks since five minutes before the start.

use std::time::Duration;

/// The kernel starts its count so that it overflows 32 bits early, where mistakes are found.
const BEFORE_START: u64 = 300;

/// What time it is, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jiffies {
    pub now: u64,
    pub per_second: u64,
}

impl Jiffies {
    /// The coarse clock advances with each tick, so that its resolution is the length of one. The kernel shows the number
    /// itself nowhere that a container may read; this is right to about a second.
    pub fn now() -> Option<Jiffies> {
        let (now, tick) = (clock(libc::clock_gettime)?, clock(libc::clock_getres)?);
        Jiffies::at(now, tick)
    }

    fn at(since_start: Duration, tick: Duration) -> Option<Jiffies> {
        let tick = u64::try_from(tick.as_nanos()).ok().filter(|tick| *tick > 0)?;
        let per_second = (1_000_000_000 + tick / 2) / tick;
        let first = (1_u64 << 32).checked_sub(BEFORE_START * per_second)?;
        let ticks = u64::try_from(since_start.as_nanos() / u128::from(tick)).ok()?;
        Some(Jiffies { now: first + ticks, per_second })
    }

    /// How long ago that was; something of the next moment was just now.
    pub fn since(&self, stamp: u64) -> Duration {
        let ticks = self.now.saturating_sub(stamp);
        Duration::from_millis(ticks.saturating_mul(1000) / self.per_second.max(1))
    }
}

fn clock(ask: unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int) -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both functions write one timespec, which lives until they return.
    let outcome = unsafe { ask(libc::CLOCK_MONOTONIC_COARSE, &mut time) };
    let (seconds, nanos) = (u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?);
    (outcome == 0).then(|| Duration::new(seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_time() {
        let at = |hz: u64| {
            Jiffies::at(Duration::from_secs(1000), Duration::from_nanos(1_000_000_000 / hz)).unwrap()
        };
        for hz in [100, 250, 300, 1000] {
            let jiffies = at(hz);
            assert_eq!(jiffies.per_second, hz);
            let start = (1 << 32) - 300 * hz;
            assert!(
                jiffies.since(start).abs_diff(Duration::from_secs(1000)) < Duration::from_millis(10),
                "{hz}"
            );
            assert_eq!(jiffies.since(jiffies.now - hz), Duration::from_secs(1));
            assert_eq!(jiffies.since(jiffies.now + 5), Duration::ZERO);
        }
        assert!(Jiffies::now().is_some_and(|jiffies| jiffies.per_second >= 100));
    }
}
