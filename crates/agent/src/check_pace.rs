//! When the rules are looked at for damage by others, in case nothing told of it.

use std::time::{Duration, Instant};

use crate::config::Mode;

/// Nothing tells of a change in iptables, so that the look itself has to come soon. It takes microseconds as long as
/// nobody changes anything there; what more it may take is the data plane's care.
const WITHOUT_NOTIFICATIONS: Duration = Duration::from_secs(1);
/// Rules that are gone are services that do not answer: a quarrel is no reason to leave them so for long.
const LONGEST_QUARREL: Duration = Duration::from_secs(5);

/// Damage that is found so often in a row is repaired as fast as any.
const PATIENCE: u32 = 2;

/// Decides when the next look is. Holds no clock: times are passed in.
#[derive(Debug)]
pub(crate) struct CheckPace {
    usual: Duration,
    longest: Duration,
    /// Looks in a row that found damage.
    damages: u32,
    next: Instant,
}

impl CheckPace {
    /// `sync_period` is the longest time between two looks.
    pub(crate) fn new(mode: Mode, sync_period: Duration, now: Instant) -> CheckPace {
        let (usual, longest) = match mode {
            Mode::Iptables => (sync_period.min(WITHOUT_NOTIFICATIONS), sync_period.min(LONGEST_QUARREL)),
            Mode::Unset | Mode::Nftables | Mode::Ipvs => (sync_period, sync_period),
        };
        CheckPace { usual, longest, damages: 0, next: now + usual }
    }

    /// How long from `now` until the next look.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        self.next.saturating_duration_since(now)
    }

    /// A look was taken. Whoever damages our rules again and again is left more time each time: two that quarrel
    /// must not keep the node busy.
    pub(crate) fn done(&mut self, now: Instant, is_damaged: bool) {
        self.damages = if is_damaged { self.damages + 1 } else { 0 };
        let factor = 1_u32 << self.damages.saturating_sub(PATIENCE).min(16);
        self.next = now + (self.usual * factor).min(self.longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn iptables_is_looked_at_every_second_and_nftables_every_period() {
        let now = Instant::now();
        assert_eq!(CheckPace::new(Mode::Iptables, 30 * SECOND, now).wait(now), SECOND);
        assert_eq!(CheckPace::new(Mode::Iptables, SECOND / 2, now).wait(now), SECOND / 2);
        assert_eq!(CheckPace::new(Mode::Nftables, 30 * SECOND, now).wait(now), 30 * SECOND);
    }

    #[test]
    fn a_quarrel_is_fought_ever_more_slowly_until_it_ends() {
        let now = Instant::now();
        let mut pace = CheckPace::new(Mode::Iptables, 30 * SECOND, now);
        let waits = [(); 8].map(|()| {
            pace.done(now, true);
            pace.wait(now).as_secs()
        });
        assert_eq!(waits, [1, 1, 2, 4, 5, 5, 5, 5]);
        pace.done(now, false);
        assert_eq!(pace.wait(now), SECOND);
    }
}
