//! The way to the sync loop. No sender waits for a commit to end, and what waits meanwhile is
//! bounded: of each object its last change, of everything else the last word.

use std::collections::VecDeque;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cluster::Backlog;
use dataplane::Drift;

use crate::questions::{self, Question};
use crate::sync::Event;

/// The sync loop is gone.
#[derive(Debug)]
pub(crate) struct Gone;

pub(crate) fn channel() -> (Sender, Receiver) {
    let shared = Arc::new(Shared::default());
    (Sender(Arc::new(SenderEnd(shared.clone()))), Receiver(shared))
}

#[derive(Clone, Debug)]
pub(crate) struct Sender(Arc<SenderEnd>);

/// All senders.
#[derive(Debug)]
struct SenderEnd(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Receiver(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// What cannot stand for one another: each is handed over, in order. Who sends these bounds their number.
    each: Vec<Event>,
    reconfigure: Option<Event>,
    updates: Backlog,
    addresses: Option<Event>,
    /// One for each table that it may be about.
    drifts: Vec<Drift>,
    questions: VecDeque<Question>,
    has_sender_gone: bool,
    has_receiver_gone: bool,
}

impl Sender {
    /// Never waits for the loop.
    pub(crate) fn send(&self, event: Event) -> Result<(), Gone> {
        let shared = &self.0.0;
        let mut waiting = shared.lock();
        if waiting.has_receiver_gone {
            return Err(Gone);
        }
        waiting.add(event);
        drop(waiting);
        shared.arrived.notify_one();
        Ok(())
    }
}

impl Receiver {
    /// Everything that waits, as soon as there is something.
    pub(crate) fn recv_timeout(&self, timeout: Duration) -> Result<Vec<Event>, RecvTimeoutError> {
        let deadline = Instant::now() + timeout;
        let mut waiting = self.0.lock();
        loop {
            if !waiting.is_empty() {
                return Ok(waiting.take());
            }
            if waiting.has_sender_gone {
                return Err(RecvTimeoutError::Disconnected);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(RecvTimeoutError::Timeout);
            }
            let woken = self.0.arrived.wait_timeout(waiting, left);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for SenderEnd {
    fn drop(&mut self) {
        self.0.lock().has_sender_gone = true;
        self.0.arrived.notify_one();
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        // The receiver is gone.
        *waiting = Waiting { has_receiver_gone: true, ..Waiting::default() };
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn add(&mut self, event: Event) {
        match event {
            Event::Update(update) => self.updates.add(update),
            Event::Drift(drift) => drift.join(&mut self.drifts),
            Event::Addresses(_) => self.addresses = Some(event),
            Event::Reconfigure(_) => self.reconfigure = Some(event),
            Event::Question(question) => self.ask(question),
            Event::PinsFound(_) | Event::Stop => self.each.push(event),
        }
    }

    fn is_empty(&self) -> bool {
        self.each.is_empty()
            && self.updates.is_empty()
            && self.drifts.is_empty()
            && self.addresses.is_none()
            && self.reconfigure.is_none()
            && self.questions.is_empty()
    }

    fn ask(&mut self, question: Question) {
        self.questions.retain(|question| !question.is_abandoned());
        match self.questions.len() < questions::MOST_WAITING {
            true => self.questions.push_back(question),
            false => question.refuse(),
        }
    }

    /// In an order in which nothing depends on what comes later; the end comes first. Of the questions some may wait for
    /// the next time.
    fn take(&mut self) -> Vec<Event> {
        let mut events = std::mem::take(&mut self.each);
        events.extend(self.reconfigure.take());
        events.extend(self.updates.take().into_iter().map(Event::Update));
        events.extend(self.addresses.take());
        events.extend(std::mem::take(&mut self.drifts).into_iter().map(Event::Drift));
        let some = self.questions.len().min(questions::ANSWERS_PER_TURN);
        events.extend(self.questions.drain(..some).map(Event::Question));
        events
    }
}

#[cfg(test)]
mod tests {
    use cluster::{Kind, ObjectChange, ObjectKey, Update};
    use model::Family;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn delete(number: u32) -> Event {
        let key = ObjectKey::new(Kind::Service, "default", &number.to_string());
        Event::Update(Update::Changes(vec![ObjectChange::Delete(key)]))
    }

    #[test]
    fn what_nobody_reads_stays_small() {
        let (sender, receiver) = channel();
        for number in 0..1_000_000 {
            sender.send(delete(number % 10)).unwrap();
            sender.send(Event::Addresses(vec![[10, 0, 0, 1].into()])).unwrap();
            for family in [Some(Family::V4), Some(Family::V6), None] {
                sender.send(Event::Drift(Drift { family, why: "Somebody else wrote".into() })).unwrap();
            }
        }
        assert_eq!(sender.0.0.lock().updates.changes(), 10);
        let events = receiver.recv_timeout(Duration::ZERO).unwrap();
        assert!(matches!(
            &events[..],
            [Event::Update(Update::Changes(changes)), Event::Addresses(_), Event::Drift(_), ..]
                if changes.len() == 10
        ));
        assert!(events.len() <= 5, "{events:?}");
        assert_eq!(receiver.recv_timeout(Duration::ZERO).unwrap_err(), RecvTimeoutError::Timeout);
    }

    #[test]
    fn a_reader_sleeps_until_something_comes() {
        let (sender, receiver) = channel();
        let reader = std::thread::spawn(move || {
            let first = receiver.recv_timeout(LONG).unwrap();
            (first, receiver.recv_timeout(LONG).unwrap_err())
        });
        sender.send(Event::Stop).unwrap();
        drop(sender);
        let (first, second) = reader.join().unwrap();
        assert!(matches!(first[..], [Event::Stop]));
        assert_eq!(second, RecvTimeoutError::Disconnected);
    }

    #[test]
    fn the_end_comes_before_all_else_and_nobody_listens_after_it() {
        let (sender, receiver) = channel();
        sender.send(delete(1)).unwrap();
        sender.send(Event::Stop).unwrap();
        assert!(matches!(receiver.recv_timeout(LONG).unwrap()[..], [Event::Stop, Event::Update(_)]));
        drop(receiver);
        assert!(sender.clone().send(delete(2)).is_err());
    }
}
