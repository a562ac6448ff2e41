//! Connections to a service without end, while something else happens.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use sandbox::{Namespace, probe};
use test_support::{ANSWER, SOON, patient, wait_until};

/// Leaves the machine some time for what the connections are meant to watch.
const PAUSE: Duration = Duration::from_millis(10);

/// It ends when this is dropped, so also when the case fails.
#[derive(Debug)]
pub struct Traffic {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    streams: Vec<JoinHandle<Vec<String>>>,
}

impl Traffic {
    /// One connection after the other to each of the addresses.
    pub fn start(client: &Namespace, targets: [SocketAddr; 2]) -> Traffic {
        let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let streams = targets.map(|to| {
            let client = client.try_clone().unwrap();
            let (stop, asked) = (stop.clone(), asked.clone());
            std::thread::spawn(move || {
                let mut bad = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let outcome = probe::tcp(&client, None, to, patient(ANSWER));
                    asked.fetch_add(1, Ordering::Relaxed);
                    if outcome.by().is_none() {
                        bad.push(format!("{to}: {outcome:?}"));
                    }
                    std::thread::sleep(PAUSE);
                }
                bad
            })
        });
        Traffic { stop, asked, streams: streams.into() }
    }

    /// Wait for so many connections more.
    pub fn go_on(&self, more: usize) {
        let wanted = self.asked.load(Ordering::Relaxed) + more;
        assert!(
            wait_until(SOON, || self.asked.load(Ordering::Relaxed) >= wanted),
            "the traffic stands still"
        );
    }

    /// Every connection must have been answered; says how many there were.
    pub fn finish(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let streams = std::mem::take(&mut self.streams).into_iter();
        let bad: Vec<String> = streams.flat_map(|stream| stream.join().unwrap()).collect();
        let asked = self.asked.load(Ordering::Relaxed);
        assert!(bad.is_empty(), "{} of {asked} failed: {:?}", bad.len(), bad.get(..5).unwrap_or(&bad));
        asked
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
