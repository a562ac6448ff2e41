//! Node ports on loopback addresses, for modes whose rules cannot serve them: no NAT leads from 127.0.0.1 to a pod without
//! `route_localnet`, and none from ::1 at all. The agent listens there itself and carries what comes to the endpoints.
//!
//! Any mode asks for it by wrapping its backend. Nothing is started before the first listener is needed.

mod metrics;

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use model::{Address, Change, Family, NodePlan, Pool, PortPlan, Protocol, ServiceKey, ServicePlan, ports_of};

use crate::backend::{Backend, Committed, Setup, SyncError};
use crate::check_pace::Looks;
use crate::drift::TellDrift;
use crate::inspection::{Inspected, Look};
use crate::nftables::{Pin, PinSweep};
use forwarder::{Forwarder, FrontId, Means, Refused, Shared};

pub(crate) use metrics::{GATED, collector};

/// Listeners at once: a node port has one for each address and family.
const MOST: usize = 4_000;

/// A mode whose node ports are served on loopback addresses, too.
pub(crate) struct Listening<B> {
    mode: B,
    listeners: Listeners,
}

/// What is measured.
#[derive(Default)]
pub(crate) struct Figures {
    pub(super) open: [AtomicUsize; 2],
    pub(super) failures: [AtomicU64; 2],
    shared: OnceLock<Arc<Shared>>,
}

impl Figures {
    /// Whether there is a listener, or was.
    pub(super) fn are_there(&self) -> bool {
        self.shared.get().is_some()
    }

    /// Clients that were turned away.
    pub(super) fn rejected(&self, family: Family, protocol: Protocol) -> u64 {
        let count = |shared: &Arc<Shared>| {
            let count = shared.counts.of(family, protocol);
            Refused::ALL.iter().map(|why| count.refused(*why)).sum()
        };
        self.shared.get().map_or(0, count)
    }
}

#[derive(Default)]
struct Listeners {
    forwarder: Option<Forwarder>,
    /// A second service has the port: they are known by address.
    open: HashMap<(Protocol, SocketAddr), FrontId>,
    failed: BTreeSet<(Protocol, SocketAddr)>,
    figures: Arc<Figures>,
}

impl<B> Listening<B> {
    pub(crate) fn new(mode: B) -> Listening<B> {
        Listening { mode, listeners: Listeners::default() }
    }

    pub(crate) fn figures(&self) -> Arc<Figures> {
        self.listeners.figures.clone()
    }
}

impl Listeners {
    /// Whether there is or was anything to do.
    fn are_needed(&self, nodes: &[&NodePlan]) -> bool {
        self.forwarder.is_some() || nodes.iter().any(|node| !node.nodeport_listeners.is_empty())
    }

    fn forwarder(&mut self) -> Option<&Forwarder> {
        if self.forwarder.is_none() {
            match Forwarder::start() {
                Ok(forwarder) => {
                    let _ = self.figures.shared.set(forwarder.shared.clone());
                    self.forwarder = Some(forwarder);
                }
                Err(error) => {
                    tracing::error!(%error, "Failed to start the forwarder; node ports on loopback addresses are not served");
                }
            }
        }
        self.forwarder.as_ref()
    }

    fn rewrite(&mut self, family: Family, plans: &HashMap<ServiceKey, ServicePlan>, node: &NodePlan) {
        if self.are_needed(&[node])
            && let Some(forwarder) = self.forwarder()
        {
            forwarder.shared.directory.replace(family, plans, node);
            self.settle(family, node);
        }
    }

    fn apply(&mut self, family: Family, changes: &[Change<'_>], nodes: (&NodePlan, &NodePlan)) {
        if self.are_needed(&[nodes.0, nodes.1])
            && let Some(forwarder) = self.forwarder()
        {
            forwarder.shared.directory.take_in(family, changes, nodes.1);
            forwarder.shared.directory.let_go(family, changes);
            let is_same = |change: &Change<'_>| node_ports(change.old) == node_ports(change.new);
            if nodes.0.nodeport_listeners != nodes.1.nodeport_listeners || !changes.iter().all(is_same) {
                self.settle(family, nodes.1);
            }
        }
    }

    /// Listen where it is wanted, and nowhere else.
    fn settle(&mut self, family: Family, node: &NodePlan) {
        let Some(forwarder) = &self.forwarder else { return };
        let ports = forwarder.shared.directory.node_ports(family);
        let carried = ports.into_iter().filter(|(protocol, _)| *protocol != Protocol::Sctp);
        let at = |(protocol, port): (Protocol, u16)| {
            let at = move |ip: &IpAddr| (protocol, SocketAddr::new(*ip, port));
            node.nodeport_listeners.iter().map(at).collect::<Vec<_>>()
        };
        let wanted: BTreeSet<(Protocol, SocketAddr)> = carried.flat_map(at).take(MOST).collect();
        let is_ours = |at: &SocketAddr| Family::of(at.ip()) == family;
        self.open.retain(|key, front| {
            let stays = !is_ours(&key.1) || wanted.contains(key);
            if !stays {
                forwarder.close(*front);
            }
            stays
        });
        let mut is_told = false;
        let mut failed: BTreeSet<_> = self.failed.iter().filter(|(_, at)| !is_ours(at)).copied().collect();
        for key in wanted {
            if self.open.contains_key(&key) {
                continue;
            }
            let (protocol, at) = key;
            match forwarder.open(protocol, Pool::Cluster, Means::NodePort(at)) {
                Ok(front) => drop(self.open.insert(key, front)),
                Err(error) => {
                    self.figures.failures[family.index()].fetch_add(1, Ordering::Relaxed);
                    // One line, however many a service asks for.
                    if !self.failed.contains(&key) && !is_told {
                        is_told = true;
                        tracing::error!(
                            %protocol, %at, %error,
                            "Failed to serve a node port on a loopback address; others may fail too, see \
                             kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total. Retrying with the \
                             next check"
                        );
                    }
                    failed.insert(key);
                }
            }
        }
        self.failed = failed;
        let open = self.open.keys().filter(|(_, at)| is_ours(at)).count();
        self.figures.open[family.index()].store(open, Ordering::Relaxed);
    }

    /// Ports that were taken may be free by now.
    fn retry(&mut self, family: Family, node: &NodePlan) {
        if self.failed.iter().any(|(_, at)| Family::of(at.ip()) == family) {
            self.settle(family, node);
        }
    }
}

fn node_ports(plan: Option<&ServicePlan>) -> BTreeSet<(Protocol, u16)> {
    let numbers = |port: &PortPlan| {
        let protocol = port.protocol;
        let numbers = port.destinations.iter().filter_map(move |destination| match destination.at {
            Address::NodePort(number) => Some((protocol, number)),
            Address::Vip(..) => None,
        });
        numbers.collect::<Vec<_>>()
    };
    ports_of(plan).iter().flat_map(|port| numbers(port)).collect()
}

impl<B: Backend> Backend for Listening<B> {
    fn rewrite(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> Result<Committed, SyncError> {
        self.listeners.rewrite(family, plans, node);
        self.mode.rewrite(family, plans, node)
    }

    fn apply(
        &mut self,
        family: Family,
        changes: &[Change<'_>],
        node: (&NodePlan, &NodePlan),
    ) -> Result<Committed, SyncError> {
        self.listeners.apply(family, changes, node);
        self.mode.apply(family, changes, node)
    }

    fn is_rewritten_for(&self, before: &NodePlan, after: &NodePlan) -> bool {
        self.mode.is_rewritten_for(before, after)
    }

    fn works_in_pieces(&self) -> bool {
        self.mode.works_in_pieces()
    }

    fn interim(&self, change: &Change<'_>) -> Option<ServicePlan> {
        self.mode.interim(change)
    }

    fn take_sweeps(&mut self, family: Family) -> Vec<PinSweep> {
        self.mode.take_sweeps(family)
    }

    fn sweep(&mut self, sweep: &PinSweep) -> Result<usize, SyncError> {
        self.mode.sweep(sweep)
    }

    fn forget(&mut self, family: Family, pins: &[Pin]) -> Result<usize, SyncError> {
        self.mode.forget(family, pins)
    }

    fn configure(&mut self, family: Family, setup: &Setup) -> bool {
        if let Some(forwarder) = &self.listeners.forwarder {
            forwarder.shared.set_udp_idle(setup.of_mode.udp_idle());
        }
        self.mode.configure(family, setup)
    }

    fn watch(&mut self, tell: TellDrift) {
        self.mode.watch(tell);
    }

    fn looks(&mut self, sync_period: Duration) -> Looks {
        self.mode.looks(sync_period)
    }

    fn damage_found(&self) -> &'static str {
        self.mode.damage_found()
    }

    fn is_intact(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> bool {
        self.listeners.retry(family, node);
        self.mode.is_intact(family, plans, node)
    }

    fn inspect(&mut self, family: Family, inspected: &Inspected<'_>) -> Look {
        self.mode.inspect(family, inspected)
    }

    fn inspect_all(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> Option<Look> {
        self.mode.inspect_all(family, plans, node)
    }

    fn take_unserved(&mut self) -> Vec<(ServiceKey, &'static str)> {
        self.mode.take_unserved()
    }

    fn cleanup(&mut self, family: Family) -> Result<(), SyncError> {
        self.mode.cleanup(family)
    }
}
