//! What goes wrong for many connections alike is logged now and then, with a count: of all threads together.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two lines about the same trouble.
pub(crate) const INTERVAL: Duration = Duration::from_secs(60);

/// One for each kind of trouble, and for each protocol where its remedy is another.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    pub(crate) descriptors: Complaint,
    pub(crate) tcp_limit: Complaint,
    pub(crate) udp_limit: Complaint,
    pub(crate) crowd: Complaint,
    pub(crate) endpoints: Complaint,
    pub(crate) conntrack: Complaint,
    pub(crate) tcp_ports: Complaint,
    pub(crate) udp_ports: Complaint,
    pub(crate) blocked: Complaint,
    pub(crate) fronts: Complaint,
    pub(crate) unknown: Complaint,
}

#[derive(Debug, Default)]
pub(crate) struct Complaint(Mutex<Said>);

#[derive(Debug, Default)]
struct Said {
    last: Option<Instant>,
    unsaid: u64,
}

impl Complaint {
    /// Whether to say it now, and how often it happened since it was said last.
    pub(crate) fn note(&self, now: Instant) -> Option<u64> {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.unsaid += 1;
        if said.last.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL) {
            return None;
        }
        said.last = Some(now);
        Some(std::mem::take(&mut said.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_trouble_is_said_once_in_a_while() {
        let (complaint, now) = (Complaint::default(), Instant::now());
        assert_eq!(complaint.note(now), Some(1));
        assert_eq!((0..5).filter_map(|_| complaint.note(now)).count(), 0);
        assert_eq!(complaint.note(now + INTERVAL), Some(6));
    }
}
