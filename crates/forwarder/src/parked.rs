//! Sockets of UDP flows that ended while their endpoint may still answer. Their ports are kept for a moment: a late answer
//! would reach the client of the next flow that has the port.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How late an answer may come.
const LATE: Duration = Duration::from_secs(1);
pub(crate) struct Parked {
    sockets: VecDeque<(Instant, OwnedFd)>,
    /// So many are kept; the oldest go first.
    most: usize,
}

impl Parked {
    pub(crate) fn new(most: usize) -> Parked {
        Parked { sockets: VecDeque::new(), most: most.max(1) }
    }

    /// Keep the socket of a flow that was used last at this time.
    pub(crate) fn keep(&mut self, socket: OwnedFd, used: Instant, now: Instant) {
        if now.saturating_duration_since(used) >= LATE {
            return;
        }
        if self.sockets.len() >= self.most {
            self.sockets.pop_front();
        }
        self.sockets.push_back((now + LATE, socket));
    }

    /// When the next one can go.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.sockets.front().map(|(until, _)| *until)
    }

    pub(crate) fn expire(&mut self, now: Instant) {
        while self.next().is_some_and(|until| until <= now) {
            self.sockets.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 16;

    fn socket() -> OwnedFd {
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into()
    }

    #[test]
    fn ports_are_kept_as_long_as_late_answers_may_come() {
        let (mut parked, now) = (Parked::new(MOST), Instant::now());
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
        assert_eq!(parked.sockets.len(), MOST);
    }
}
