//! When to check the rules for damage by other processes that nothing has reported.

use std::time::{Duration, Instant};

/// How often the rules are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looks {
    pub usual: Duration,
    /// While another process keeps damaging them.
    pub longest: Duration,
}

/// Damage that is found so often in a row is repaired as fast as any.
const PATIENCE: u32 = 2;

/// Decides when the next look is. Holds no clock: times are passed in.
#[derive(Debug)]
pub struct CheckPace {
    looks: Looks,
    /// Looks in a row that found damage.
    damages: u32,
    next: Instant,
}

impl CheckPace {
    pub fn new(looks: Looks, now: Instant) -> CheckPace {
        CheckPace { looks, damages: 0, next: now + looks.usual }
    }

    /// How long from `now` until the next look.
    pub fn wait(&self, now: Instant) -> Duration {
        self.next.saturating_duration_since(now)
    }

    /// A look was taken. Repeated damage makes the next look wait longer each time: two that fight
    /// must not keep the node busy.
    pub fn done(&mut self, now: Instant, is_damaged: bool) {
        self.damages = if is_damaged { self.damages + 1 } else { 0 };
        let factor = 1_u32 << self.damages.saturating_sub(PATIENCE).min(16);
        self.next = now + (self.looks.usual * factor).min(self.looks.longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn repeated_damage_slows_the_looks_until_it_ends() {
        let now = Instant::now();
        let mut pace = CheckPace::new(Looks { usual: SECOND, longest: 5 * SECOND }, now);
        let waits = [(); 8].map(|()| {
            pace.done(now, true);
            pace.wait(now).as_secs()
        });
        assert_eq!(waits, [1, 1, 2, 4, 5, 5, 5, 5]);
        pace.done(now, false);
        assert_eq!(pace.wait(now), SECOND);
    }
}
