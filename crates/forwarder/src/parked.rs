//! Sockets of UDP flows that ended while their endpoint may still answer. Their ports are kept for a moment: a late answer
//! would reach the client of the next flow that has the port.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How late an answer may come.
const LATE: Duration = Duration::from_secs(1);
/// So many are kept; the oldest go first.
const MOST: usize = 256;

#[derive(Default)]
pub(crate) struct Parked(VecDeque<(Instant, OwnedFd)>);

impl Parked {
    /// Keep the socket of a flow that was used last at this time.
    pub(crate) fn keep(&mut self, socket: OwnedFd, used: Instant, now: Instant) {
        if now.saturating_duration_since(used) >= LATE {
            return;
        }
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back((now + LATE, socket));
    }

    /// When the next one can go.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.front().map(|(until, _)| *until)
    }

    pub(crate) fn expire(&mut self, now: Instant) {
        while self.next().is_some_and(|until| until <= now) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket() -> OwnedFd {
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into()
    }

    #[test]
    fn ports_are_kept_as_long_as_late_answers_may_come() {
        let (mut parked, now) = (Parked::default(), Instant::now());
        parked.keep(socket(), now, now + LATE);
        assert_eq!(parked.next(), None, "it was silent for long enough");
        parked.keep(socket(), now, now);
        parked.keep(socket(), now, now + LATE / 2);
        assert_eq!(parked.next(), Some(now + LATE));
        parked.expire(now + LATE);
        assert_eq!(parked.next(), Some(now + LATE / 2 + LATE));
        for _ in 0..MOST {
            parked.keep(socket(), now, now);
        }
        assert_eq!(parked.0.len(), MOST);
    }
}
