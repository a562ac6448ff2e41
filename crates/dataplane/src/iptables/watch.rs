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
#[path = "../../tests/unit/iptables_watch.rs"]
mod tests;
