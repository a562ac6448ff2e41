//! The sync loop: one plain thread that owns the cluster state and the data plane. Everything else talks to
//! it by [`Event`]s, because a netlink `send` blocks for as long as the kernel commits.

use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use cluster::{ClusterState, Update};
use dataplane::{Backend, Pacing, Planner, Reconciler, SyncError, Synced};
use model::{Conflict, Family, NodeView, ServiceKey};

use crate::Options;
use crate::flows::StaleWork;
use crate::health::Health;
use crate::planner::ClusterPlanner;

/// What the loop reacts to.
#[derive(Debug)]
pub(crate) enum Event {
    /// The source has news.
    Update(Update),
    /// Somebody else changed our rules.
    Drift(Drift),
    /// The addresses of this node, as they are now.
    Addresses(Vec<IpAddr>),
    Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Drift {
    pub(crate) family: Family,
}

pub(crate) struct SyncLoop<B> {
    options: Options,
    state: ClusterState,
    node: NodeView,
    addresses: Vec<IpAddr>,
    reconciler: Reconciler<B>,
    pacing: Pacing,
    health: Health,
    flows: Sender<StaleWork>,
    /// Contested addresses that were reported, per family.
    conflicts: [Vec<Conflict>; 2],
    /// Last failure per family, so that the same one is not logged at each retry.
    last_failure: [Option<String>; 2],
    synced_once: bool,
}

impl<B: Backend> SyncLoop<B> {
    pub(crate) fn new(
        options: Options,
        backend: B,
        addresses: Vec<IpAddr>,
        health: Health,
        flows: Sender<StaleWork>,
    ) -> SyncLoop<B> {
        SyncLoop {
            state: ClusterState::default(),
            node: NodeView { name: options.node_name.clone(), ..NodeView::default() },
            addresses,
            reconciler: Reconciler::new(backend),
            pacing: Pacing::new(options.min_sync_period),
            health,
            flows,
            conflicts: [Vec::new(), Vec::new()],
            last_failure: [None, None],
            synced_once: false,
            options,
        }
    }

    /// Until told to stop. The rules stay in place then.
    pub(crate) fn run(mut self, events: &Receiver<Event>) {
        loop {
            let wait =
                if self.has_work() { self.pacing.wait(Instant::now()) } else { self.options.sync_period };
            match events.recv_timeout(wait) {
                Ok(event) => {
                    if !self.absorb(event) || !events.try_iter().all(|event| self.absorb(event)) {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.has_work() && self.pacing.wait(Instant::now()).is_zero() {
                self.sync();
            } else if !self.has_work() {
                self.health.idle();
            }
        }
    }

    /// Take one event in; `false` ends the loop.
    fn absorb(&mut self, event: Event) -> bool {
        match event {
            Event::Update(Update::Problems(problems)) => {
                for problem in problems {
                    tracing::error!("{problem}; its last good version stays in force");
                }
            }
            Event::Update(update) => self.state.update(update),
            Event::Drift(drift) => {
                tracing::warn!(family = %drift.family, "Somebody else changed our rules; writing them anew");
                self.reconciler.distrust(drift.family);
                self.pacing.repair(Instant::now());
            }
            Event::Addresses(addresses) => self.addresses = addresses,
            Event::Stop => return false,
        }
        if self.has_work() {
            self.health.queued();
        }
        true
    }

    /// Nothing is programmed before every source is complete.
    fn has_work(&self) -> bool {
        let unknown = Family::BOTH.iter().any(|family| self.reconciler.is_unknown(*family));
        self.state.is_complete() && (unknown || self.state.is_dirty() || self.node != self.observe_node())
    }

    /// This node as its Node object and the kernel tell of it.
    fn observe_node(&self) -> NodeView {
        let facts = self.state.node(&self.options.node_name);
        let first_of = |family| self.addresses.iter().copied().find(|ip| Family::of(*ip) == family);
        NodeView {
            name: self.options.node_name.clone(),
            zone: facts.and_then(|facts| facts.zone.as_deref()).map(str::to_owned),
            primary: match facts {
                Some(facts) => facts.primary,
                None => Family::BOTH.map(first_of),
            },
            addresses: self.addresses.clone(),
        }
    }

    fn sync(&mut self) {
        let started = Instant::now();
        let node = self.observe_node();
        let everything_moves = node.zone != self.node.zone || node.primary != self.node.primary;
        self.node = node;
        let dirty = self.state.dirty();
        let services: Vec<ServiceKey> = match everything_moves {
            true => self.state.services().cloned().chain(dirty.services.iter().cloned()).collect(),
            false => dirty.services.clone(),
        };
        let mut failed = false;
        for family in Family::BOTH {
            let outcome = self.sync_family(family, &services);
            failed |= outcome.is_err();
            match outcome {
                Ok(synced) => self.finish(family, synced, started),
                Err(error) => self.report_failure(family, &error),
            }
        }
        // A family that failed is written anew as a whole: no mark is needed to remember its services.
        self.state.clear_dirty(&dirty);
        let ended = Instant::now();
        if failed {
            let wait = self.pacing.failed(ended);
            tracing::debug!(?wait, "Trying again");
        } else {
            self.pacing.succeeded(started, ended);
            self.announce_first_sync(ended - started);
        }
    }

    fn sync_family(&mut self, family: Family, services: &[ServiceKey]) -> Result<Synced, SyncError> {
        let planner = ClusterPlanner {
            state: &self.state,
            node: &self.node,
            settings: &self.options.settings,
            nodeport_addresses: &self.options.nodeport_addresses,
        };
        self.reconciler.sync(family, services, &planner)
    }

    fn finish(&mut self, family: Family, synced: Synced, started: Instant) {
        let took = started.elapsed();
        if self.last_failure[family.index()].take().is_some() {
            tracing::info!(%family, "Rules are in place again");
        }
        tracing::debug!(
            %family, full = synced.full, services = synced.services, bytes = synced.committed.bytes,
            micros = took.as_micros() as u64, "Synced"
        );
        self.health.updated(family);
        self.report_conflicts(family);
        if !synced.stale.is_empty() {
            let planner_node = self.node_ips(family);
            let work = StaleWork { family, stale: synced.stale, node_ips: planner_node };
            // The cleaner ends only with the process.
            let _ = self.flows.send(work);
        }
        if synced.full {
            kernel::memory::give_back();
        }
    }

    /// Say once which service goes without an address, and why.
    fn report_conflicts(&mut self, family: Family) {
        let now = self.reconciler.conflicts(family);
        let known = &mut self.conflicts[family.index()];
        for conflict in now.iter().filter(|conflict| !known.contains(conflict)) {
            let losers: Vec<&str> = conflict.losers.iter().map(|loser| &**loser).collect();
            tracing::warn!(
                %family, address = %conflict.claim, owner = %conflict.owner, without = losers.join(","),
                "Several services claim one address; the oldest has it, give the others another"
            );
        }
        *known = now;
    }

    fn node_ips(&self, family: Family) -> Vec<IpAddr> {
        let planner = ClusterPlanner {
            state: &self.state,
            node: &self.node,
            settings: &self.options.settings,
            nodeport_addresses: &self.options.nodeport_addresses,
        };
        planner.node(family).nodeport_ips
    }

    fn report_failure(&mut self, family: Family, error: &SyncError) {
        let text = error.to_string();
        if self.last_failure[family.index()].as_deref() == Some(&*text) {
            return;
        }
        tracing::error!(
            %family, error = %text,
            "Could not write the rules; the old ones stay in place and everything is tried again"
        );
        self.last_failure[family.index()] = Some(text);
    }

    fn announce_first_sync(&mut self, took: Duration) {
        if std::mem::replace(&mut self.synced_once, true) {
            return;
        }
        let counts = self.state.counts();
        tracing::info!(
            services = counts.services,
            slices = counts.slices,
            millis = took.as_millis() as u64,
            "All rules are in place"
        );
    }
}
