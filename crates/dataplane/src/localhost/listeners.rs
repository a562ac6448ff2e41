//! The listeners on loopback addresses, one for each node port and address. What a change costs follows from the ports that
//! it adds and removes, and how many there are is bounded.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::{Address, Change, Family, NodePlan, Pool, Protocol, ServiceKey, ServicePlan, ports_of};

use super::Figures;
use super::left_out::LeftOut;
use crate::shortfall::Shortfall;
use forwarder::{Forwarder, FrontId, Means};

/// Listeners of a family at once.
pub(super) const MOST: usize = 4_000;
/// Of those that failed, so many are tried again at each look.
const RETRIED: usize = 64;

pub(super) type Key = (Protocol, SocketAddr);

/// Of one family.
pub(super) struct Listeners {
    family: Family,
    figures: Arc<Figures>,
    /// So many at once.
    most: usize,
    open: HashMap<Key, FrontId>,
    /// Another process has the port, or there are no descriptors.
    failed: BTreeSet<Key>,
    /// One more than there may be.
    left_out: LeftOut,
    /// Where the last retry ended.
    retried: Option<Key>,
    has_told: bool,
}

impl Listeners {
    pub(super) fn new(family: Family, figures: Arc<Figures>) -> Listeners {
        Listeners {
            family,
            figures,
            most: MOST,
            open: HashMap::new(),
            failed: BTreeSet::new(),
            left_out: LeftOut::new(),
            retried: None,
            has_told: false,
        }
    }

    /// Listen for just these services.
    pub(super) fn replace(
        &mut self,
        forwarder: &Forwarder,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) {
        let ports = plans
            .iter()
            .flat_map(|(service, plan)| node_ports(Some(plan)).into_iter().map(move |port| (port, service)));
        let wanted: BTreeMap<Key, &ServiceKey> = ports
            .flat_map(|(port, service)| places(port, &node.nodeport_listeners).map(move |key| (key, service)))
            .collect();
        let gone: Vec<Key> = self.known().filter(|key| !wanted.contains_key(key)).collect();
        gone.iter().for_each(|key| self.close(forwarder, key));
        wanted.into_iter().for_each(|(key, service)| self.open(forwarder, key, service));
        self.note();
    }

    /// What these changes add and remove. The directory knows who has a port that two of them are about.
    pub(super) fn apply(&mut self, forwarder: &Forwarder, changes: &[Change<'_>], addresses: &[IpAddr]) {
        let family = self.family;
        let is_wanted = |(protocol, port): (Protocol, u16)| {
            forwarder.shared.directory.find_node_port(family, protocol, port).is_some()
        };
        let mut added = Vec::new();
        for change in changes {
            let (old, new) = (node_ports(change.old), node_ports(change.new));
            for port in old.difference(&new).filter(|port| !is_wanted(**port)) {
                places(*port, addresses).for_each(|key| self.close(forwarder, &key));
            }
            added.extend(new.difference(&old).map(|port| (*port, change.service)));
        }
        for (port, service) in added.into_iter().filter(|(port, _)| is_wanted(*port)) {
            places(port, addresses).for_each(|key| self.open(forwarder, key, service));
        }
        self.fill(forwarder);
        self.note();
    }

    /// Ports that were taken may be free by now.
    pub(super) fn retry(&mut self, forwarder: &Forwarder) {
        let after = self.retried.take().map_or(Bound::Unbounded, Bound::Excluded);
        let again: Vec<Key> = self.failed.range((after, Bound::Unbounded)).take(RETRIED).copied().collect();
        self.retried = again.last().filter(|_| again.len() == RETRIED).copied();
        for key in again {
            match listen(forwarder, key) {
                Ok(front) => {
                    self.failed.remove(&key);
                    self.open.insert(key, front);
                }
                Err(_) => self.count_failure(),
            }
        }
        if self.failed.is_empty() {
            self.has_told = false;
        }
        self.note();
    }

    fn note(&self) {
        self.figures.open[self.family.index()].store(self.open.len(), Ordering::Relaxed);
        self.figures.left_out[self.family.index()].store(self.left_out.keys.len(), Ordering::Relaxed);
    }

    fn count_failure(&self) {
        self.figures.failures[self.family.index()].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn take_shortfalls(&mut self) -> Vec<Shortfall> {
        self.left_out.shortfalls.take()
    }

    fn known(&self) -> impl Iterator<Item = Key> {
        self.open.keys().chain(&self.failed).chain(self.left_out.keys.keys()).copied()
    }

    fn open(&mut self, forwarder: &Forwarder, key: Key, service: &ServiceKey) {
        if self.open.contains_key(&key) || self.failed.contains(&key) {
            return;
        }
        if self.open.len() + self.failed.len() >= self.most {
            return self.left_out.insert(key, service);
        }
        self.left_out.remove(&key);
        match listen(forwarder, key) {
            Ok(front) => drop(self.open.insert(key, front)),
            Err(error) => {
                self.failed.insert(key);
                self.count_failure();
                // One line, however many there are.
                if !std::mem::replace(&mut self.has_told, true) {
                    let (protocol, at) = key;
                    tracing::error!(
                        %service, %protocol, %at, %error,
                        "Failed to serve a node port on a loopback address; others may fail too, see \
                         kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total. Retrying with the \
                         next checks"
                    );
                }
            }
        }
    }

    fn close(&mut self, forwarder: &Forwarder, key: &Key) {
        if let Some(front) = self.open.remove(key) {
            forwarder.close(front);
        }
        self.failed.remove(key);
        self.left_out.remove(key);
    }

    /// Where one has gone, one that was left out comes in.
    fn fill(&mut self, forwarder: &Forwarder) {
        while self.open.len() + self.failed.len() < self.most
            && let Some((key, service)) = self.left_out.pop_first()
        {
            self.open(forwarder, key, &service);
        }
    }
}

fn listen(forwarder: &Forwarder, (protocol, at): Key) -> std::io::Result<FrontId> {
    forwarder.open(protocol, Pool::Cluster, Means::NodePort(at))
}

/// Where a node port is served.
fn places((protocol, port): (Protocol, u16), addresses: &[IpAddr]) -> impl Iterator<Item = Key> {
    addresses.iter().map(move |ip| (protocol, SocketAddr::new(*ip, port)))
}

/// Those that a forwarder can carry.
fn node_ports(plan: Option<&ServicePlan>) -> BTreeSet<(Protocol, u16)> {
    let carried = ports_of(plan).iter().filter(|port| forwarder::carries(port.protocol));
    let numbers = carried.flat_map(|port| {
        port.destinations.iter().filter_map(|destination| match destination.at {
            Address::NodePort(number) => Some((port.protocol, number)),
            Address::Vip(..) => None,
        })
    });
    numbers.collect()
}

#[cfg(test)]
mod tests {
    use model::{Destination, Masquerade, PlannedEndpoint, PortPlan, Role, Routing, Verdict};

    use super::*;

    /// Nobody else listens there.
    const AT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 84, 85, 1));

    fn service(port: u16) -> ServicePlan {
        let destination = Destination {
            at: Address::NodePort(port),
            role: Role::NodePort,
            routing: Routing::Same(Verdict::Forward(Pool::Cluster), Masquerade::Everyone),
            allowed_sources: None,
        };
        // Nothing leaves the machine: no endpoint on a loopback address is ever tried.
        let endpoint = PlannedEndpoint { ip: [127, 0, 0, 1].into(), port: 80, may_be_own_client: false };
        let port = PortPlan {
            name: "".into(),
            protocol: Protocol::Tcp,
            affinity_seconds: None,
            cluster_pool: Box::new([endpoint]),
            local_pool: Box::default(),
            destinations: Box::new([destination]),
        };
        ServicePlan { ports: [port].into_iter().collect(), ..ServicePlan::default() }
    }

    fn answers(port: u16) -> bool {
        std::net::TcpStream::connect((AT, port)).is_ok()
    }

    #[test]
    fn ports_beyond_the_limit_are_left_out_until_another_one_goes() {
        let (forwarder, figures) = (Forwarder::start(8).unwrap(), Arc::new(Figures::default()));
        let mut listeners = Listeners { most: 3, ..Listeners::new(Family::V4, figures.clone()) };
        let ports = [30_001, 30_002, 30_003, 30_004, 30_005];
        let name = |port: u16| ServiceKey::from(format!("default/web-{port}").as_str());
        let plans: HashMap<_, _> = ports.iter().map(|port| (name(*port), service(*port))).collect();
        let node = NodePlan { nodeport_listeners: vec![AT], ..NodePlan::default() };
        forwarder.shared.directory.replace(Family::V4, &plans, &node);
        listeners.replace(&forwarder, &plans, &node);
        let counted = || [&figures.open, &figures.left_out].map(|of| of[0].load(Ordering::Relaxed));
        let told = |listeners: &mut Listeners| {
            let mut told: Vec<_> = listeners
                .take_shortfalls()
                .into_iter()
                .map(|shortfall| (shortfall.service, shortfall.is_over))
                .collect();
            told.sort();
            told
        };
        assert_eq!(counted(), [3, 2]);
        assert_eq!(told(&mut listeners), [(name(30_004), false), (name(30_005), false)]);
        assert_eq!(ports.map(answers), [true, true, true, false, false]);

        let (gone, old) = (name(30_002), service(30_002));
        let change = Change { service: &gone, old: Some(&old), new: None };
        forwarder.shared.directory.let_go(Family::V4, &[change]);
        listeners.apply(&forwarder, &[change], &node.nodeport_listeners);
        assert_eq!(counted(), [3, 1]);
        assert_eq!(told(&mut listeners), [(name(30_004), true)]);
        assert!(answers(30_004) && !answers(30_005));

        listeners.replace(&forwarder, &HashMap::new(), &node);
        assert_eq!(counted(), [0, 0]);
        assert_eq!(told(&mut listeners), [(name(30_005), true)]);
    }
}
