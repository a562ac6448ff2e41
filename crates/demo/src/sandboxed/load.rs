//! Requests without pause while something changes, each with its moment.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sandbox::{Namespace, Outcome, probe};

use super::DemoError;

/// One request.
#[derive(Clone, Debug)]
pub(super) struct Shot {
    pub(super) started: Instant,
    pub(super) ended: Instant,
    pub(super) outcome: Outcome,
}

impl Shot {
    pub(super) fn by(&self, pod: &str) -> bool {
        self.outcome.by() == Some(pod)
    }

    pub(super) fn answered(&self) -> bool {
        self.outcome.by().is_some()
    }
}

pub(super) struct Load {
    shots: Receiver<Shot>,
    seen: Vec<Shot>,
    stop: Arc<AtomicBool>,
    workers: Vec<JoinHandle<()>>,
}

impl Load {
    /// Each worker asks again as soon as it has its answer.
    pub(super) fn steady(
        from: &Namespace,
        to: SocketAddr,
        workers: usize,
        patience: Duration,
    ) -> Result<Load, DemoError> {
        let (mut load, sender) = Load::new();
        for _ in 0..workers {
            let (from, sender) = (from.try_clone()?, sender.clone());
            load.work(
                move |stop| {
                    while !stop.load(Ordering::Relaxed) && shoot(&from, to, patience, &sender) {}
                },
            )?;
        }
        Ok(load)
    }

    /// A request every so often, whatever became of those before.
    pub(super) fn paced(
        from: &Namespace,
        to: SocketAddr,
        every: Duration,
        patience: Duration,
    ) -> Result<Load, DemoError> {
        let (mut load, sender) = Load::new();
        let from = Arc::new(from.try_clone()?);
        load.work(move |stop| {
            while !stop.load(Ordering::Relaxed) {
                let (from, sender) = (Arc::clone(&from), sender.clone());
                let shot = move || shoot(&from, to, patience, &sender);
                // Without a thread there is one request less.
                drop(std::thread::Builder::new().stack_size(128 * 1024).spawn(shot));
                std::thread::sleep(every);
            }
        })?;
        Ok(load)
    }

    fn new() -> (Load, Sender<Shot>) {
        let (sender, shots) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        (Load { shots, seen: Vec::new(), stop, workers: Vec::new() }, sender)
    }

    fn work(&mut self, work: impl FnOnce(&AtomicBool) + Send + 'static) -> Result<(), DemoError> {
        let stop = Arc::clone(&self.stop);
        let worker = std::thread::Builder::new().name("load".into()).spawn(move || work(&stop));
        self.workers.push(worker.map_err(|source| DemoError::System { what: "start a thread", source })?);
        Ok(())
    }

    /// Take requests in until one fits; gives that one.
    pub(super) fn until(&mut self, what: &str, fits: impl Fn(&Shot) -> bool) -> Result<Shot, DemoError> {
        let deadline = Instant::now() + Duration::from_secs(5);
        while let Ok(shot) = self.shots.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            self.seen.push(shot.clone());
            if fits(&shot) {
                return Ok(shot);
            }
        }
        Err(DemoError::NotSeen(format!("{what} was not seen within 5 s")))
    }

    /// Take in so many more.
    pub(super) fn more(&mut self, number: usize) -> Result<(), DemoError> {
        (0..number).try_for_each(|_| self.until("a request", |_| true).map(drop))
    }

    /// Take in until so many in a row fit.
    pub(super) fn settled(
        &mut self,
        what: &str,
        number: usize,
        fits: impl Fn(&Shot) -> bool,
    ) -> Result<(), DemoError> {
        let (deadline, mut row) = (Instant::now() + Duration::from_secs(5), 0);
        while row < number {
            if Instant::now() > deadline {
                return Err(DemoError::NotSeen(format!("{what} was not seen within 5 s")));
            }
            let shot = self.until("a request", |_| true)?;
            row = if fits(&shot) { row + 1 } else { 0 };
        }
        Ok(())
    }

    /// Stop, and give every request.
    pub(super) fn finish(mut self) -> Vec<Shot> {
        self.halt();
        let mut all = std::mem::take(&mut self.seen);
        // Ends when the last request under way has, because each holds a sender.
        all.extend(self.shots.iter());
        all
    }

    fn halt(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for worker in self.workers.drain(..) {
            // A worker that panicked has sent what it had.
            let _ = worker.join();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.halt();
    }
}

/// One request; `false` if the receiver is gone.
fn shoot(from: &Namespace, to: SocketAddr, patience: Duration, shots: &Sender<Shot>) -> bool {
    let started = Instant::now();
    let outcome = probe::tcp(from, None, to, patience);
    shots.send(Shot { started, ended: Instant::now(), outcome }).is_ok()
}
