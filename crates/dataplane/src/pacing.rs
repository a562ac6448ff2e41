//! When the next sync may start: at once when idle, else after a wait that follows the cost of the last one.

use std::time::{Duration, Instant};

/// With a wait of this many times the cost, syncing takes at most a twentieth of one core.
const REST_PER_COST: u32 = 19;
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// Decides how long to wait. Holds no clock: times are passed in.
#[derive(Debug)]
pub struct Pacing {
    min_sync_period: Duration,
    not_before: Option<Instant>,
    failures: u32,
}

impl Pacing {
    /// `min_sync_period` is the most a change waits.
    pub fn new(min_sync_period: Duration) -> Pacing {
        Pacing { min_sync_period, not_before: None, failures: 0 }
    }

    /// How long from `now` until a sync may start.
    pub fn wait(&self, now: Instant) -> Duration {
        self.not_before.map_or(Duration::ZERO, |time| time.saturating_duration_since(now))
    }

    pub fn succeeded(&mut self, started: Instant, ended: Instant) {
        self.failures = 0;
        let cost = ended.saturating_duration_since(started);
        self.not_before = Some(ended + self.min_sync_period.min(cost * REST_PER_COST));
    }

    /// Retries come after 0.1 s, then each time twice as long, up to 30 s.
    pub fn failed(&mut self, ended: Instant) -> Duration {
        let factor = 1u32 << self.failures.min(16);
        let wait = (FIRST_RETRY * factor).min(LONGEST_RETRY);
        self.failures += 1;
        self.not_before = Some(ended + wait);
        wait
    }

    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn idle_means_at_once() {
        let pacing = Pacing::new(SECOND);
        assert_eq!(pacing.wait(Instant::now()), Duration::ZERO);
    }

    #[test]
    fn the_wait_follows_the_cost_and_never_exceeds_the_period() {
        let (mut pacing, start) = (Pacing::new(SECOND), Instant::now());
        let cheap = start + Duration::from_millis(2);
        pacing.succeeded(start, cheap);
        assert_eq!(pacing.wait(cheap), Duration::from_millis(38));
        assert_eq!(pacing.wait(cheap + SECOND), Duration::ZERO);
        let dear = start + Duration::from_millis(400);
        pacing.succeeded(start, dear);
        assert_eq!(pacing.wait(dear), SECOND);
    }

    #[test]
    fn failures_back_off_up_to_a_cap_and_a_success_forgives() {
        let (mut pacing, now) = (Pacing::new(SECOND), Instant::now());
        let waits: Vec<_> = (0..12).map(|_| pacing.failed(now).as_millis()).collect();
        assert_eq!(waits[..4], [100, 200, 400, 800]);
        assert_eq!(waits[11], 30_000);
        pacing.succeeded(now, now);
        assert_eq!(pacing.wait(now), Duration::ZERO);
        assert_eq!(pacing.failed(now).as_millis(), 100);
    }
}
