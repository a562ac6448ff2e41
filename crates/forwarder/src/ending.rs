//! How the forwarder ends: open connections may go on for a while, new ones are let in almost until then, and what is left
//! is cut off. Any thread can ask for it: the one that has the forwarder may be busy for longer than the process lives.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::Protocol;

use crate::Shared;
use crate::worker::{Inbox, Order};

/// Between two looks whether all connections have ended.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// What those have that came last.
const LAST: Duration = Duration::from_millis(250);
/// A thread ends as soon as it has closed its connections, if it still answers.
const FAREWELL: Duration = Duration::from_millis(250);

pub struct Ending {
    pub shared: Arc<Shared>,
    inboxes: Box<[Inbox]>,
    is_over: Mutex<bool>,
}

impl Ending {
    pub(crate) fn new(shared: Arc<Shared>, inboxes: Box<[Inbox]>) -> Ending {
        Ending { shared, inboxes, is_over: Mutex::new(false) }
    }

    /// Let connections go on until then, and end all threads. Who asks for it meanwhile waits.
    pub fn by(&self, deadline: Instant) {
        let mut is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *is_over, true) {
            return;
        }
        let drain = deadline.saturating_duration_since(Instant::now());
        if !drain.is_zero() {
            self.drain(deadline, drain);
        }
        self.tell(Order::Stop, FAREWELL);
    }

    fn drain(&self, deadline: Instant, most: Duration) {
        let open = || self.shared.counts.open(Protocol::Tcp);
        let wait_until = |until: Instant| {
            while open() > 0 && Instant::now() < until {
                std::thread::sleep(BETWEEN_LOOKS);
            }
        };
        if open() > 0 {
            tracing::info!(connections = open(), ?most, "Waiting for open connections to end");
        }
        // New ones are let in meanwhile: nobody else would.
        wait_until(deadline.checked_sub(LAST).unwrap_or(deadline));
        // Then the doors close, and clients wait for the next agent.
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        self.tell(Order::LastCall, left(deadline));
        wait_until(deadline.min(Instant::now() + LAST));
    }

    /// Give all threads an order, and wait until they have carried it out.
    fn tell(&self, order: impl Fn(std::sync::mpsc::Sender<()>) -> Order, most: Duration) {
        let (done, all_done) = channel();
        self.inboxes.iter().for_each(|inbox| inbox.send(order(done.clone())));
        drop(done);
        // Nobody sends anything: it ends when the last of them has let go of its sender.
        let _ = all_done.recv_timeout(most);
    }
}
