//! When to ask the apiserver again: backoff after failures, and the budget of requests. Pure.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

/// The first wait after a failure.
const FIRST: Duration = Duration::from_millis(200);
/// Nothing listens: asking costs nothing, and being early is worth something when the server is back.
const LONGEST_UNREACHABLE: Duration = Duration::from_secs(1);
/// A server listens and hangs up, like a balancer without servers.
const LONGEST_DROPPED: Duration = Duration::from_secs(5);
/// The server is there and says no.
const LONGEST_REJECTED: Duration = Duration::from_secs(30);

/// Why the last attempt failed, as far as waiting is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// No server was reached.
    Unreachable,
    /// Something was, but no request got through.
    Dropped,
    /// The server answered, and not with what was asked for.
    Answered,
}

/// Doubling waits, capped by the kind of trouble, with jitter so that nodes do not ask in step.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    last: Option<Trouble>,
}

impl Backoff {
    pub(super) fn succeeded(&mut self) {
        *self = Backoff::default();
    }

    /// How long to wait after another failure; `share` (0 to 1) is where in the range the jitter falls.
    pub(super) fn failed(&mut self, trouble: Trouble, share: f64) -> Duration {
        if self.last != Some(trouble) {
            self.failures = 0;
        }
        self.last = Some(trouble);
        let longest = match trouble {
            Trouble::Unreachable => LONGEST_UNREACHABLE,
            Trouble::Dropped => LONGEST_DROPPED,
            Trouble::Answered => LONGEST_REJECTED,
        };
        let full = FIRST.saturating_mul(1 << self.failures.min(16)).min(longest);
        self.failures = self.failures.saturating_add(1);
        full.mul_f64(0.5 + share.clamp(0.0, 1.0) / 2.0)
    }
}

/// From 0 up to 1, another one each time.
pub(super) fn random_share() -> f64 {
    let bits = RandomState::new().build_hasher().finish() >> 11;
    bits as f64 / (1u64 << 53) as f64
}

/// A token bucket: `burst` requests at once, `qps` a second in the long run.
#[derive(Debug)]
pub(super) struct Budget {
    qps: f64,
    burst: f64,
    tokens: f64,
    counted: Instant,
}

impl Budget {
    /// No rate limits nothing, as client-go has it.
    pub(super) fn new(qps: f32, burst: u32, now: Instant) -> Budget {
        let burst = f64::from(burst.max(1));
        Budget { qps: f64::from(qps), burst, tokens: burst, counted: now }
    }

    /// Spend a token, and say how long to wait before the request may go.
    pub(super) fn spend(&mut self, now: Instant) -> Duration {
        if self.qps <= 0.0 {
            return Duration::ZERO;
        }
        let earned = now.saturating_duration_since(self.counted).as_secs_f64() * self.qps;
        self.tokens = (self.tokens + earned).min(self.burst) - 1.0;
        self.counted = now;
        // A tiny rate makes a nearly endless wait.
        Duration::try_from_secs_f64((-self.tokens / self.qps).max(0.0)).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_cap_that_depends_on_the_trouble() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> =
            (0..5).map(|_| backoff.failed(Trouble::Unreachable, 1.0).as_millis()).collect();
        assert_eq!(waits, [200, 400, 800, 1000, 1000]);
        assert_eq!(backoff.failed(Trouble::Answered, 1.0).as_millis(), 200, "another trouble starts over");
        let last = (0..20).map(|_| backoff.failed(Trouble::Answered, 1.0)).last();
        assert_eq!(last, Some(LONGEST_REJECTED));
        backoff.succeeded();
        assert_eq!(backoff.failed(Trouble::Answered, 0.0).as_millis(), 100);
    }

    #[test]
    fn shares_spread() {
        let shares: Vec<f64> = (0..100).map(|_| random_share()).collect();
        assert!(shares.iter().all(|share| (0.0..1.0).contains(share)));
        assert!(shares.iter().any(|share| *share < 0.4) && shares.iter().any(|share| *share > 0.6));
    }

    #[test]
    fn a_burst_is_free_and_then_the_rate_rules() {
        let start = Instant::now();
        let mut budget = Budget::new(5.0, 3, start);
        let waits: Vec<u128> = (0..5).map(|_| budget.spend(start).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 200, 400]);
        assert_eq!(budget.spend(start + Duration::from_secs(10)), Duration::ZERO);
        assert_eq!(Budget::new(0.0, 0, start).spend(start), Duration::ZERO, "0 stands for no limit");
        let mut next_to_nothing = Budget::new(1e-30, 1, start);
        next_to_nothing.spend(start);
        assert!(next_to_nothing.spend(start) > Duration::from_secs(3600));
    }
}
