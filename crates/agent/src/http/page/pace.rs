//! How often what a visitor looks at is looked up again: what costs more is older.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Figures that change without a sync are as old as this at least, before they are looked up again.
const USUAL: Duration = Duration::from_secs(5);
/// For them a hundredth of a core, for what a sync changed a twentieth.
const SHARE: u32 = 99;
const SHARE_OF_CHANGES: u32 = 19;

/// Of the looks at services and packets, whichever they are.
#[derive(Debug)]
pub(super) struct Pace {
    /// Counts what is shown.
    issue: Cell<u64>,
    /// What it was made of.
    generation: Cell<u64>,
    /// Until changes are looked up, and until everything is.
    until: Cell<[Instant; 2]>,
}

impl Pace {
    /// `first` is a number that no page had before, also of an agent that ran here before.
    pub(super) fn new(first: u64, now: Instant) -> Pace {
        Pace { issue: Cell::new(first), generation: Cell::new(0), until: Cell::new([now; 2]) }
    }

    /// Another number if it is time to look again.
    pub(super) fn issue(&self, generation: u64, now: Instant) -> u64 {
        let [changes, all] = self.until.get();
        let is_other = self.generation.get() != generation;
        if now >= all || is_other && now >= changes {
            self.issue.set(self.issue.get() + 1);
            self.generation.set(generation);
            self.until.set([now, now + USUAL]);
        }
        self.issue.get()
    }

    /// It took so long to look.
    pub(super) fn looked(&self, took: Duration, now: Instant) {
        let [changes, all] = self.until.get();
        self.until.set([changes.max(now + took * SHARE_OF_CHANGES), all.max(now + took * SHARE)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_looked_at_rarely() {
        let start = Instant::now();
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        let pace = Pace::new(0, start);
        assert_eq!(pace.issue(7, start), 1);
        pace.looked(Duration::from_millis(10), after(10));
        let issues = [100, 4_999, 5_000, 5_001].map(|at| pace.issue(7, after(at)));
        assert_eq!(issues, [1, 1, 2, 2], "as long as it is cheap, every 5 s");
        pace.looked(Duration::from_secs(2), after(7_000));
        let issues = [12_000, 200_000, 205_001].map(|at| pace.issue(7, after(at)));
        assert_eq!(issues, [2, 2, 3], "one that takes 2 s");
    }

    #[test]
    fn changes_are_looked_up_soon_unless_that_takes_long() {
        let start = Instant::now();
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        let pace = Pace::new(0, start);
        pace.issue(7, start);
        pace.looked(Duration::from_millis(10), after(10));
        assert_eq!([150, 250].map(|at| pace.issue(8, after(at))), [1, 2]);
        pace.looked(Duration::from_secs(2), after(2_250));
        assert_eq!([3_000, 40_000, 41_000].map(|at| pace.issue(9, after(at))), [2, 2, 3]);
    }
}
