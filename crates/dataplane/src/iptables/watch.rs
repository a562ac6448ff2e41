//! When all rules are read to see whether they are still ours. Holds no clock: times are passed in.

use std::time::{Duration, Instant};

use kernel::iptables::Stamp;

/// The least time between two looks.
const PAUSE: Duration = Duration::from_millis(500);
/// Once another process wrote, looks may take a twentieth of a core.
pub(super) const SHARE: u32 = 19;
/// A stamp says nothing of a rule of a legacy table that was replaced by one of the same size, nor of what a process
/// wrote between our writing and our taking the stamp. These are found here, for a hundredth of a core at most.
const ANYWAY: Duration = Duration::from_secs(60);
const SHARE_ANYWAY: u32 = 99;

/// What is known of changes by others.
pub(super) struct Watch {
    /// As our last write, or the last look, left it.
    stamp: Option<Stamp>,
    /// As it was before our last write.
    before: Option<Stamp>,
    /// Another process wrote between two writes of ours, or may have during one.
    is_in_doubt: bool,
    last_look: Instant,
    /// What the last look took.
    cost: Duration,
}

impl Watch {
    pub(super) fn new(now: Instant) -> Watch {
        Watch { stamp: None, before: None, is_in_doubt: false, last_look: now, cost: Duration::ZERO }
    }

    pub(super) fn before_writing(&mut self, stamp: Option<Stamp>) {
        self.is_in_doubt |= stamp != self.stamp;
        self.before = stamp;
    }

    /// By as many steps as the write had tables.
    pub(super) fn written(&mut self, stamp: Option<Stamp>, steps: u64) {
        // The sizes of legacy tables count no steps.
        let counts = matches!(stamp, Some(Stamp([_, 0, 0, 0])));
        self.is_in_doubt |= counts && !is_by(steps, self.before, stamp);
        self.stamp = stamp;
    }

    /// A write of ours elsewhere took the stamp from one to the other, by as many steps as it had tables; with more
    /// steps another process wrote meanwhile.
    pub(super) fn advance(&mut self, before: Option<Stamp>, after: Option<Stamp>, steps: u64) {
        if self.stamp == before && is_by(steps, before, after) {
            self.stamp = after;
        }
    }

    /// Everything was rewritten, whatever others did before. It takes seconds for many services; unless nobody else wrote
    /// meanwhile for certain, a look follows soon.
    pub(super) fn rewritten(&mut self, stamp: Option<Stamp>, steps: u64, now: Instant) {
        let is_in_doubt = !is_by(steps, self.before, stamp);
        *self = Watch { stamp, before: None, is_in_doubt, last_look: now, cost: Duration::ZERO };
    }

    /// Whether it is time to read all rules.
    pub(super) fn wants_look(&self, stamp: Option<Stamp>, now: Instant) -> bool {
        let is_calm = stamp.is_some() && stamp == self.stamp && !self.is_in_doubt;
        let pause = match is_calm {
            true => ANYWAY.max(self.cost * SHARE_ANYWAY),
            false => PAUSE.max(self.cost * SHARE),
        };
        now.saturating_duration_since(self.last_look) >= pause
    }

    /// A look that began at `started` ended; `stamp` is from before it.
    pub(super) fn looked(&mut self, stamp: Option<Stamp>, is_intact: bool, started: Instant, now: Instant) {
        self.last_look = now;
        self.cost = now.saturating_duration_since(started);
        if is_intact {
            self.stamp = stamp;
            self.is_in_doubt = false;
        }
    }
}

/// Whether nobody else wrote between two stamps.
fn is_by(steps: u64, before: Option<Stamp>, after: Option<Stamp>) -> bool {
    before.is_some_and(|Stamp([count, a, b, c])| after == Some(Stamp([count + steps, a, b, c])))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    fn stamp(number: u64) -> Option<Stamp> {
        Some(Stamp([number, 0, 0, 0]))
    }

    fn rewrite(watch: &mut Watch, to: u64, now: Instant) {
        watch.before_writing(stamp(to - 1));
        watch.rewritten(stamp(to), 1, now);
    }

    #[test]
    fn what_others_did_during_a_write_is_looked_for_soon() {
        let start = Instant::now();
        let sizes = |bytes| Some(Stamp([1, bytes, 1, bytes]));
        for [before, after] in [[stamp(1), stamp(4)], [sizes(10), sizes(30)]] {
            let mut watch = Watch::new(start);
            watch.looked(before, true, start - 2_000 * MILLI, start);
            watch.before_writing(before);
            watch.rewritten(after, 2, start);
            assert!(watch.wants_look(after, start + PAUSE), "a third commit was not ours, or nothing tells");
            watch.looked(before, true, start, start);
            watch.before_writing(before);
            watch.written(after, 1);
            assert_eq!(watch.wants_look(after, start + PAUSE), before == stamp(1), "sizes do not tell");
        }
    }

    #[test]
    fn nobody_else_wrote() {
        let start = Instant::now();
        let mut watch = Watch::new(start);
        rewrite(&mut watch, 1, start);
        watch.before_writing(stamp(1));
        watch.written(stamp(2), 1);
        assert!(!watch.wants_look(stamp(2), start + 59_000 * MILLI));
        assert!(watch.wants_look(stamp(2), start + ANYWAY), "sometimes it looks all the same");
        assert!(watch.wants_look(None, start + PAUSE), "without a stamp nothing is known");
    }

    #[test]
    fn what_others_wrote_is_looked_at_soon_and_not_too_often() {
        let start = Instant::now();
        let mut watch = Watch::new(start);
        rewrite(&mut watch, 1, start);
        assert!(!watch.wants_look(stamp(2), start + 499 * MILLI));
        assert!(watch.wants_look(stamp(2), start + PAUSE));
        let looked = start + 600 * MILLI;
        watch.looked(stamp(2), true, looked - 100 * MILLI, looked);
        assert!(!watch.wants_look(stamp(2), looked + PAUSE), "it was harmless");
        assert!(!watch.wants_look(stamp(3), looked + 1899 * MILLI));
        assert!(watch.wants_look(stamp(3), looked + 1900 * MILLI));
    }

    #[test]
    fn a_write_of_the_other_family_is_no_news() {
        let start = Instant::now();
        let mut watch = Watch::new(start);
        rewrite(&mut watch, 1, start);
        watch.advance(stamp(1), stamp(2), 1);
        assert!(!watch.wants_look(stamp(2), start + PAUSE));
        watch.advance(stamp(3), stamp(4), 1);
        assert!(watch.wants_look(stamp(4), start + PAUSE), "somebody else made it 3");
        rewrite(&mut watch, 4, start);
        watch.advance(stamp(4), stamp(7), 2);
        assert!(watch.wants_look(stamp(7), start + PAUSE), "somebody else wrote meanwhile");
    }

    #[test]
    fn a_write_of_ours_hides_none_of_theirs() {
        let start = Instant::now();
        let mut watch = Watch::new(start);
        rewrite(&mut watch, 1, start);
        watch.before_writing(stamp(2));
        watch.written(stamp(3), 1);
        assert!(watch.wants_look(stamp(3), start + PAUSE));
        rewrite(&mut watch, 4, start);
        assert!(!watch.wants_look(stamp(4), start + PAUSE), "everything was rewritten");
    }
}
