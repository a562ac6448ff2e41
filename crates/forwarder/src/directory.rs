//! Which service port an address belongs to. The sync thread writes it, the forwarder's threads read it.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use model::{
    Address, Change, Family, NodePlan, Pool, PortPlan, Protocol, Routing, ServiceKey, ServicePlan, Verdict,
};

use crate::port::Port;

type Key = (Protocol, Address);

#[derive(Default)]
pub struct Directory {
    families: [RwLock<Entries>; 2],
}

#[derive(Clone)]
struct Entry {
    port: Arc<Port>,
    /// Where clients on this node are led.
    inside: Option<Pool>,
}

#[derive(Default)]
struct Entries {
    ports: HashMap<Key, Entry>,
    nodeport_ips: Vec<IpAddr>,
}

impl Directory {
    /// The service port that clients of this address mean. As in the rules, the address of a service comes before a port
    /// of the node.
    pub fn find(&self, protocol: Protocol, at: SocketAddr) -> Option<Arc<Port>> {
        let entries = self.read(Family::of(at.ip()));
        let by_address = entries.ports.get(&(protocol, Address::Vip(at.ip(), at.port())));
        let by_port = || match entries.nodeport_ips.contains(&at.ip()) {
            true => entries.ports.get(&(protocol, Address::NodePort(at.port()))),
            false => None,
        };
        by_address.or_else(by_port).map(|entry| entry.port.clone())
    }

    /// The service port with this node port, and the endpoints for clients on this node, if they have any.
    pub fn find_node_port(
        &self,
        family: Family,
        protocol: Protocol,
        port: u16,
    ) -> Option<(Arc<Port>, Option<Pool>)> {
        let entries = self.read(family);
        let entry = entries.ports.get(&(protocol, Address::NodePort(port)))?;
        Some((entry.port.clone(), entry.inside))
    }

    /// What is new or different. What goes is still there: the rules may still lead clients to it.
    pub fn take_in(&self, family: Family, changes: &[Change<'_>], node: &NodePlan) {
        let mut entries = self.write(family);
        for change in changes {
            for (before, after) in change.ports() {
                if let Some(after) = after.filter(|after| before != Some(*after)) {
                    entries.put(change.service, before.map(|port| &**port), after);
                }
            }
        }
        entries.nodeport_ips.clone_from(&node.nodeport_ips);
    }

    /// What is gone. Another service of the same batch may have taken an address over.
    pub fn let_go(&self, family: Family, changes: &[Change<'_>]) {
        let mut entries = self.write(family);
        let changed = || {
            let pairs = changes.iter().flat_map(|change| change.ports());
            pairs.filter(|(before, after)| before != after)
        };
        let kept: HashSet<Key> =
            changed().filter_map(|(_, after)| after).flat_map(|port| keys(port)).collect();
        let gone = changed().filter_map(|(before, _)| before).flat_map(|port| keys(port));
        for key in gone.filter(|key| !kept.contains(key)) {
            entries.ports.remove(&key);
        }
    }

    /// Just these services; ports that were there before go on with their clients.
    pub fn replace(&self, family: Family, plans: &HashMap<ServiceKey, ServicePlan>, node: &NodePlan) {
        let mut entries = self.write(family);
        let before = std::mem::take(&mut entries.ports);
        for (service, plan) in plans {
            for port in &plan.ports {
                let label = label(service, port);
                let mut known = keys(port).filter_map(|key| Some(&before.get(&key)?.port));
                let known = known.find(|known| known.label == label).cloned();
                entries.insert(label, known, port);
            }
        }
        entries.nodeport_ips.clone_from(&node.nodeport_ips);
    }

    /// Everything in words, in order.
    pub fn describe(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for family in Family::BOTH {
            let entries = self.read(family);
            for ((protocol, at), Entry { port, inside }) in &entries.ports {
                lines.push(format!("{protocol} {at}: {port:?} {inside:?}"));
            }
        }
        lines.sort();
        lines
    }

    fn read(&self, family: Family) -> RwLockReadGuard<'_, Entries> {
        self.families[family.index()].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, family: Family) -> RwLockWriteGuard<'_, Entries> {
        self.families[family.index()].write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn put(&mut self, service: &ServiceKey, before: Option<&PortPlan>, after: &PortPlan) {
        let label = label(service, after);
        let mut known = before.into_iter().flat_map(keys).filter_map(|key| Some(&self.ports.get(&key)?.port));
        let known = known.find(|known| known.label == label).cloned();
        self.insert(label, known, after);
    }

    fn insert(&mut self, label: Arc<str>, known: Option<Arc<Port>>, plan: &PortPlan) {
        let port = match known {
            Some(port) => {
                port.update(plan);
                port
            }
            None => Arc::new(Port::new(label, plan)),
        };
        let is_own = |at: Address| matches!(at, Address::Vip(ip, _) if crate::is_own(ip));
        for destination in plan.destinations.iter().filter(|destination| !is_own(destination.at)) {
            let entry = Entry { port: port.clone(), inside: inside(destination.routing) };
            self.ports.insert((plan.protocol, destination.at), entry);
        }
    }
}

/// The endpoints for clients on this node.
fn inside(routing: Routing) -> Option<Pool> {
    match routing {
        Routing::Same(Verdict::Forward(pool), _) | Routing::Split { inside: Verdict::Forward(pool), .. } => {
            Some(pool)
        }
        Routing::Same(..) | Routing::Split { .. } => None,
    }
}

fn keys(port: &PortPlan) -> impl Iterator<Item = Key> {
    port.destinations.iter().map(|destination| (port.protocol, destination.at))
}

fn label(service: &ServiceKey, port: &PortPlan) -> Arc<str> {
    match &*port.name {
        "" => Arc::from(&**service),
        name => format!("{}:{name}", &**service).into(),
    }
}
