//! What goes wrong for many connections alike is logged now and then, with a count.

use std::time::{Duration, Instant};

/// Between two lines about the same trouble.
const INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct Complaint {
    last: Option<Instant>,
    unsaid: u64,
}

impl Complaint {
    /// Whether to say it now, and how often it happened since it was said last.
    pub(crate) fn note(&mut self, now: Instant) -> Option<u64> {
        self.unsaid += 1;
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL) {
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_trouble_is_said_once_in_a_while() {
        let (mut complaint, now) = (Complaint::default(), Instant::now());
        assert_eq!(complaint.note(now), Some(1));
        assert_eq!((0..5).filter_map(|_| complaint.note(now)).count(), 0);
        assert_eq!(complaint.note(now + INTERVAL), Some(6));
    }
}
