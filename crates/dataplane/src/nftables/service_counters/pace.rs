//! When counters are read again. Pure.

use std::time::{Duration, Instant};

/// Maximum age of the values while they are scraped.
const USUAL: Duration = Duration::from_secs(15);
/// Who scrapes twice within this gets the same figures twice.
const LEAST: Duration = Duration::from_secs(1);
/// Reading takes at most this part of the time.
const SHARE: u32 = 200;
/// No longer scraped.
const ABANDONED: Duration = Duration::from_secs(300);

#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The end of the last reading, and how long it took.
    last: Option<(Instant, Duration)>,
}

impl Pace {
    pub(super) fn done(&mut self, started: Instant, ended: Instant) {
        self.last = Some((ended, ended.saturating_duration_since(started)));
    }

    /// How long to wait for the next reading; `None`: until the next request. A scrape that was not given the
    /// newest figures has them read soon; else they are kept fresh for the next.
    pub(super) fn wait(&self, asked: Option<Instant>, now: Instant) -> Option<Duration> {
        let asked = asked?;
        let Some((ended, took)) = self.last else { return Some(Duration::ZERO) };
        let least = LEAST.max(took.saturating_mul(SHARE));
        if asked > ended {
            return Some((ended + least).saturating_duration_since(now));
        }
        let is_abandoned = now.saturating_duration_since(asked) > ABANDONED;
        (!is_abandoned).then(|| (ended + least.max(USUAL)).saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn figures_are_read_while_somebody_asks() {
        let start = Instant::now();
        let mut pace = Pace::default();
        assert_eq!(pace.wait(None, start), None, "nobody has asked");
        assert_eq!(pace.wait(Some(start), start), Some(Duration::ZERO), "the first one waits for nothing");
        let read = start + Duration::from_millis(1);
        pace.done(start, read);
        assert_eq!(pace.wait(Some(start), read), Some(USUAL));
        assert_eq!(pace.wait(Some(read + seconds(3)), read + seconds(3)), Some(Duration::ZERO));
        let again = read + Duration::from_millis(400);
        assert_eq!(pace.wait(Some(again), again), Some(Duration::from_millis(600)));
        assert_eq!(pace.wait(Some(start), read + ABANDONED), None);
    }

    #[test]
    fn what_takes_long_is_done_seldom() {
        let start = Instant::now();
        let mut pace = Pace::default();
        pace.done(start, start + Duration::from_millis(100));
        let now = start + seconds(5);
        assert_eq!(pace.wait(Some(now), now), Some(Duration::from_millis(15_100)));
        assert_eq!(pace.wait(Some(start), now), Some(Duration::from_millis(15_100)));
    }
}
