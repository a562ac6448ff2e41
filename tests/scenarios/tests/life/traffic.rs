//! Connections without end, while something else happens.
//!
//! Lost packets are counted by the kernel of each client, not told from slow answers: on a busy machine
//! an answer may be late for reasons of its own. If the machine stood still meanwhile, as an emulated one may, what was
//! sent again was late and need not have been lost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sandbox::{Namespace, probe};
pub(crate) use test_support::netstat::sent_again;

use test_support::{Carrier, SOON, wait_until};

use super::stage::{From, Stage, answer};

/// Leaves the machine some time for what the connections are meant to watch.
const PAUSE: Duration = Duration::from_millis(3);
/// A first packet is sent again after a second. Where a thread wakes up this late, some packet may have waited longer.
const STANDSTILL: Duration = Duration::from_millis(500);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

pub(crate) struct Traffic {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    streams: Vec<JoinHandle<Vec<String>>>,
    /// The clients, and how often each had sent a first packet again before.
    clients: Vec<(Namespace, u64)>,
    clock: Option<JoinHandle<Duration>>,
}

impl Traffic {
    /// New connections one after the other from each client to its destination, each pair in its own thread.
    pub(crate) fn start(stage: &Stage, pairs: &[(From, SocketAddr)]) -> Traffic {
        let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let clients = pairs.iter().map(|(from, _)| {
            let namespace = stage.namespace(*from).try_clone().unwrap();
            let before = sent_again(&namespace);
            (namespace, before)
        });
        let clients = clients.collect();
        let streams = pairs.iter().map(|(from, to)| {
            let (namespace, source) = (stage.namespace(*from).try_clone().unwrap(), from.source(*to));
            let (from, to, stop, asked) = (*from, *to, stop.clone(), asked.clone());
            std::thread::spawn(move || {
                let mut bad = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let outcome = probe::tcp(&namespace, source, to, answer());
                    let number = asked.fetch_add(1, Ordering::Relaxed);
                    if outcome.by().is_none() {
                        bad.push(format!("connection {number}, {from:?} to {to}: {outcome:?}"));
                    }
                    std::thread::sleep(PAUSE);
                }
                bad
            })
        });
        let streams = streams.collect();
        let until = stop.clone();
        let clock = Some(std::thread::spawn(move || longest_standstill(&until)));
        Traffic { stop, asked, streams, clients, clock }
    }

    /// Connections made so far.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Wait until there were so many more.
    pub(crate) fn go_on(&self, connections: usize) {
        let before = self.asked();
        assert!(wait_until(SOON, || self.asked() > before + connections), "traffic stands still");
    }

    /// The same in a mode whose connections end with the agent, which ended so often: each client may have had one of them,
    /// and waited for the next agent.
    pub(crate) fn finish_after(mut self, carriers: &[Carrier], ends: usize) -> usize {
        if !carriers.iter().any(|carrier| carrier.is_a_process()) {
            return self.finish();
        }
        let clients = self.streams.len();
        let (asked, bad) = self.end();
        let most = clients * ends;
        assert!(bad.len() <= most, "{} of {asked} failed: {:?}", bad.len(), bad.get(..8).unwrap_or(&bad));
        asked
    }

    fn end(&mut self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        let streams = std::mem::take(&mut self.streams).into_iter();
        let bad = streams.flat_map(|stream| stream.join().unwrap()).collect();
        (self.asked.load(Ordering::Relaxed), bad)
    }

    /// Every connection must have been answered, and none have needed a second first packet. Returns how many there were.
    pub(crate) fn finish(mut self) -> usize {
        let (asked, bad) = self.end();
        assert!(bad.is_empty(), "{} of {asked} failed: {:?}", bad.len(), bad.get(..8).unwrap_or(&bad));
        let standstill = self.clock.take().map(|clock| clock.join().unwrap()).unwrap_or_default();
        if standstill > STANDSTILL {
            println!(
                "the machine stood still for {standstill:?}: packets that were sent again are not counted"
            );
            return asked;
        }
        for (client, before) in &self.clients {
            assert_eq!(sent_again(client), *before, "first packets were lost, in {asked} connections");
        }
        asked
    }
}

/// The latest that this thread woke up.
fn longest_standstill(stop: &AtomicBool) -> Duration {
    let mut longest = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let before = Instant::now();
        std::thread::sleep(BETWEEN_LOOKS);
        longest = longest.max(before.elapsed().saturating_sub(BETWEEN_LOOKS));
    }
    longest
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
