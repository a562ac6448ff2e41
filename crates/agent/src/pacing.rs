//! When the next sync may start: at once when idle, else after a wait that follows the cost of the last one.

use std::time::{Duration, Instant};

/// With a wait of this many times the cost, syncing takes at most a twentieth of one core.
const REST_PER_COST: u32 = 19;
/// The rest after changes: if each costs more than a twentieth of this, syncing may take more than a twentieth of a core.
const LONGEST_REST: Duration = Duration::from_millis(75);
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// A repair may jump the queue this often. A process that damages our rules more often than that will continue, and
/// must not cost more than ordinary changes do.
const BETWEEN_REPAIRS: Duration = Duration::from_secs(5);

/// Decides how long to wait. Holds no clock: times are passed in.
#[derive(Debug)]
pub(crate) struct Pacing {
    min_sync_period: Duration,
    rest_per_cost: u32,
    not_before: Option<Instant>,
    last_repair: Option<Instant>,
    failures: u32,
}

impl Pacing {
    /// `min_sync_period` is the most a change waits.
    pub(crate) fn new(min_sync_period: Duration) -> Pacing {
        let rest_per_cost = REST_PER_COST;
        Pacing { min_sync_period, rest_per_cost, not_before: None, last_repair: None, failures: 0 }
    }

    /// After each sync, wait for this many times its cost.
    pub(crate) fn with_rest(self, rest_per_cost: u32) -> Pacing {
        Pacing { rest_per_cost, ..self }
    }

    /// Holds from the next sync on.
    pub(crate) fn set_min_sync_period(&mut self, min_sync_period: Duration) {
        self.min_sync_period = min_sync_period;
    }

    /// How long from `now` until a sync may start.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        self.not_before.map_or(Duration::ZERO, |time| time.saturating_duration_since(now))
    }

    /// Our rules were damaged: the next sync may start at once.
    pub(crate) fn repair(&mut self, now: Instant) {
        let recent = |last: Instant| now.saturating_duration_since(last) < BETWEEN_REPAIRS;
        if self.failures == 0 && !self.last_repair.is_some_and(recent) {
            self.last_repair = Some(now);
            self.not_before = None;
        }
    }

    /// Some changes were written. However much they cost, the next one does not wait long: it may be another tenant's.
    pub(crate) fn changed(&mut self, cost: Duration, ended: Instant) {
        self.succeeded(cost, ended);
        let longest = ended + LONGEST_REST;
        self.not_before = self.not_before.map(|time| time.min(longest));
    }

    /// Everything was written.
    pub(crate) fn succeeded(&mut self, cost: Duration, ended: Instant) {
        self.failures = 0;
        self.not_before = Some(ended + self.min_sync_period.min(cost * self.rest_per_cost));
    }

    /// Retries come after 0.1 s, then each time twice as long, up to 30 s.
    pub(crate) fn failed(&mut self, ended: Instant) -> Duration {
        let factor = 1u32 << self.failures.min(16);
        let wait = (FIRST_RETRY * factor).min(LONGEST_RETRY);
        self.failures += 1;
        self.not_before = Some(ended + wait);
        wait
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
        pacing.succeeded(cheap - start, cheap);
        assert_eq!(pacing.wait(cheap), Duration::from_millis(38));
        assert_eq!(pacing.wait(cheap + SECOND), Duration::ZERO);
        let costly = start + Duration::from_millis(400);
        pacing.succeeded(costly - start, costly);
        assert_eq!(pacing.wait(costly), SECOND);
    }

    #[test]
    fn what_one_change_cost_does_not_hold_up_the_next_for_long() {
        let (mut pacing, start) = (Pacing::new(SECOND), Instant::now());
        let costly = start + Duration::from_millis(400);
        pacing.changed(costly - start, costly);
        assert_eq!(pacing.wait(costly), LONGEST_REST);
        pacing.changed(Duration::from_millis(2), start + Duration::from_millis(2));
        assert_eq!(pacing.wait(start + Duration::from_millis(2)), Duration::from_millis(38));
    }

    #[test]
    fn a_repair_starts_at_once_but_repeated_ones_are_paced() {
        let (mut pacing, now) = (Pacing::new(SECOND), Instant::now());
        pacing.succeeded(SECOND, now + SECOND);
        pacing.repair(now + SECOND);
        assert_eq!(pacing.wait(now + SECOND), Duration::ZERO);
        pacing.succeeded(SECOND, now + 2 * SECOND);
        pacing.repair(now + 2 * SECOND);
        assert_eq!(pacing.wait(now + 2 * SECOND), SECOND);
        pacing.repair(now + 9 * SECOND);
        assert_eq!(pacing.wait(now + 9 * SECOND), Duration::ZERO);
    }

    #[test]
    fn failures_back_off_up_to_a_cap_and_a_success_forgives() {
        let (mut pacing, now) = (Pacing::new(SECOND), Instant::now());
        let waits: Vec<_> = (0..12).map(|_| pacing.failed(now).as_millis()).collect();
        assert_eq!(waits[..4], [100, 200, 400, 800]);
        assert_eq!(waits[11], 30_000);
        pacing.succeeded(Duration::ZERO, now);
        assert_eq!(pacing.wait(now), Duration::ZERO);
        assert_eq!(pacing.failed(now).as_millis(), 100);
    }
}
