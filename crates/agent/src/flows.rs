//! Forgetting recorded flows that became stale: a thread of its own, so that no sync waits for it.

use std::net::IpAddr;
use std::sync::mpsc::{Receiver, Sender, channel};

use model::{Family, StaleFlows, StaleSet};

/// Flows that a sync left behind.
#[derive(Debug)]
pub(crate) struct StaleWork {
    pub(crate) family: Family,
    pub(crate) stale: Vec<StaleFlows>,
    /// Addresses that serve node ports.
    pub(crate) node_ips: Vec<IpAddr>,
}

/// Start the cleaner in the calling thread's network namespace.
pub(crate) fn start() -> std::io::Result<Sender<StaleWork>> {
    let (sender, receiver) = channel();
    std::thread::Builder::new().name("stale-flows".into()).spawn(move || clean(&receiver))?;
    Ok(sender)
}

fn clean(receiver: &Receiver<StaleWork>) {
    while let Ok(first) = receiver.recv() {
        // What piled up during the last pass is handled in one.
        let waiting: Vec<StaleWork> = std::iter::once(first).chain(receiver.try_iter()).collect();
        for family in Family::BOTH {
            let mut set = StaleSet::default();
            let mut node_ips = Vec::new();
            for work in waiting.iter().filter(|work| work.family == family) {
                set.extend(work.stale.iter().cloned());
                node_ips.clone_from(&work.node_ips);
            }
            if !set.is_empty() {
                forget(family, &set, &node_ips);
            }
        }
    }
}

fn forget(_: Family, _: &StaleSet, _: &[IpAddr]) {}
