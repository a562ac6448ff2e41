//! Which service port an address belongs to. The sync thread writes it, the forwarder's threads read it.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use model::{
    Address, Change, Family, NodePlan, Pool, PortPlan, Protocol, Routing, ServiceKey, ServicePlan, Verdict,
};

use crate::port::{Offer, Port};

type Key = (Protocol, Address);

/// Between two sweeps of pins.
const BETWEEN_SWEEPS: Duration = Duration::from_secs(50);

#[derive(Default)]
pub struct Directory {
    families: [RwLock<Entries>; 2],
    /// Clients of all ports that are pinned to endpoints.
    pins: Arc<AtomicUsize>,
    pins_swept: Mutex<Option<Instant>>,
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
        let mut news = Vec::new();
        for change in changes {
            for (before, after) in change.ports() {
                if let Some(after) = after.filter(|after| before != Some(*after)) {
                    news.push((before, New::of(change.service, after)));
                }
            }
        }
        let mut entries = self.write(family);
        for (before, new) in news {
            let known = entries.known(before.into_iter().flat_map(|port| keys(port)), &new.label);
            entries.insert(known, new, &self.pins);
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
        let all = plans.iter().flat_map(|(service, plan)| plan.ports.iter().map(move |port| (service, port)));
        let news: Vec<New<'_>> = all.map(|(service, port)| New::of(service, port)).collect();
        let mut entries = self.write(family);
        let before = Entries { ports: std::mem::take(&mut entries.ports), nodeport_ips: Vec::new() };
        for new in news {
            let known = before.known(keys(new.plan), &new.label);
            entries.insert(known, new, &self.pins);
        }
        entries.nodeport_ips.clone_from(&node.nodeport_ips);
        // Nobody waits while the others are freed.
        drop(entries);
    }

    /// Forget pins whose time is over, if nobody has done so for a while.
    pub(crate) fn sweep_pins(&self, now: Instant) {
        {
            let mut swept = self.pins_swept.lock().unwrap_or_else(PoisonError::into_inner);
            if swept.is_some_and(|swept| now.saturating_duration_since(swept) < BETWEEN_SWEEPS) {
                return;
            }
            *swept = Some(now);
        }
        if self.pins.load(Ordering::Relaxed) == 0 {
            return;
        }
        for family in Family::BOTH {
            // A port with several addresses is swept for each of them, which does no harm.
            let ports: Vec<Arc<Port>> =
                self.read(family).ports.values().map(|entry| entry.port.clone()).collect();
            ports.iter().for_each(|port| port.sweep_pins(now));
        }
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

/// A port that is new or different. Its endpoints are sorted before anybody is kept out: there may be many.
struct New<'a> {
    label: Arc<str>,
    plan: &'a PortPlan,
    offer: Arc<Offer>,
}

impl New<'_> {
    fn of<'a>(service: &ServiceKey, plan: &'a PortPlan) -> New<'a> {
        New { label: label(service, plan), plan, offer: Arc::new(Offer::of(plan)) }
    }
}

impl Entries {
    /// The port of this label at one of these addresses.
    fn known(&self, mut at: impl Iterator<Item = Key>, label: &str) -> Option<Arc<Port>> {
        at.find_map(|key| self.ports.get(&key).filter(|entry| &*entry.port.label == label))
            .map(|entry| entry.port.clone())
    }

    fn insert(&mut self, known: Option<Arc<Port>>, new: New<'_>, pins: &Arc<AtomicUsize>) {
        let port = match known {
            Some(port) => {
                port.update(new.offer);
                port
            }
            None => Arc::new(Port::new(new.label, new.offer, pins.clone())),
        };
        let is_own = |at: Address| matches!(at, Address::Vip(ip, _) if crate::is_own(ip));
        for destination in new.plan.destinations.iter().filter(|destination| !is_own(destination.at)) {
            let entry = Entry { port: port.clone(), inside: inside(destination.routing) };
            self.ports.insert((new.plan.protocol, destination.at), entry);
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
