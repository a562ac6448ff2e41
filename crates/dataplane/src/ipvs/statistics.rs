//! What the mode counts: virtual servers, destinations, those that drain; and traffic of services, which IPVS counts
//! anyway.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kernel::ipvs::{self, Transport as _, VirtualServer};
use kernel::nft;
use model::{Change, Family, NodePlan, PortPlan, ServiceKey, ports_of};

use super::Held;
use super::servers::{Offers, add_port};
use crate::backend::SyncError;
use crate::metrics::{Collector, Description, Page, label_text};
use crate::mode::Unavailable;
use crate::nftables::refusals;
use crate::nftables::service_counters::{self, Figures};
use crate::nftables::{Count, PortTraffic, ServicePortName, read_traffic};

const OF_FAMILY: &[&str] = &["ip_family"];

const SERVERS: Description = Description::gauge(
    "pointsman_ipvs_virtual_servers",
    OF_FAMILY,
    "Virtual servers programmed for services",
);
const DESTINATIONS: Description = Description::gauge(
    "pointsman_ipvs_destinations",
    OF_FAMILY,
    "Destinations in use of all virtual servers",
);
const DRAINING: Description = Description::gauge(
    "pointsman_ipvs_draining_destinations",
    OF_FAMILY,
    "Destinations whose endpoint is gone and that stay until their connections end",
);

pub(super) const METRICS: [Description; 9] = {
    let [packets, bytes, connections, refused] = service_counters::METRICS;
    let [dropped, rejected] = refusals::METRICS;
    [packets, bytes, connections, refused, SERVERS, DESTINATIONS, DRAINING, dropped, rejected]
};

pub(super) fn collector(held: Arc<Held>) -> Arc<dyn Collector> {
    Arc::new(Gauges(held))
}

struct Gauges(Arc<Held>);

impl Collector for Gauges {
    fn collect(&self, page: &mut Page) {
        let Gauges(held) = self;
        let families =
            [(&SERVERS, &held.servers), (&DESTINATIONS, &held.destinations), (&DRAINING, &held.draining)];
        for (about, counts) in families {
            page.family(about);
            for family in Family::BOTH {
                let labels = label_text([("ip_family", &*family.to_string())]);
                page.count(about.name, &labels, counts[family.index()].load(Ordering::Relaxed) as u64);
            }
        }
    }
}

/// Which service port a virtual server belongs to; only where traffic of services is asked for.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<HashMap<VirtualServer, Arc<ServicePortName>>>);

impl Names {
    /// What some changes make of them. The node is before and after.
    pub(super) fn change(&self, changes: &[Change<'_>], node: (&NodePlan, &NodePlan)) {
        for change in changes {
            ports_of(change.old).iter().for_each(|port| self.remove(port, &node.0.nodeport_ips));
        }
        for change in changes {
            ports_of(change.new).iter().for_each(|port| self.add(change.service, port, &node.1.nodeport_ips));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<VirtualServer, Arc<ServicePortName>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn clear(&self, family: Family) {
        self.lock().retain(|server, _| Family::of(server.address) != family);
    }

    pub(super) fn add(&self, service: &ServiceKey, port: &PortPlan, nodeport_ips: &[IpAddr]) {
        let (name, protocol) = (port.name.clone(), port.protocol);
        let name = Arc::new(ServicePortName { service: (&**service).into(), port: name, protocol });
        let mut names = self.lock();
        for_each_server(port, nodeport_ips, |server| {
            names.insert(server, name.clone());
        });
    }

    pub(super) fn remove(&self, port: &PortPlan, nodeport_ips: &[IpAddr]) {
        let mut names = self.lock();
        for_each_server(port, nodeport_ips, |server| {
            names.remove(&server);
        });
    }
}

fn for_each_server(port: &PortPlan, nodeport_ips: &[IpAddr], each: impl FnMut(VirtualServer)) {
    let mut offers = Offers::new();
    add_port(&mut offers, port, nodeport_ips);
    offers.into_keys().for_each(each);
}

/// Show what IPVS counts of each service port, and the rules of what they refuse, from the first sync on.
pub(super) fn count_services(held: &Arc<Held>) -> Result<Arc<service_counters::Board>, Unavailable> {
    const CANNOT: &str = "cannot start reading the counters of services";
    let mut servers = ipvs::Connection::open().map_err(Unavailable::new)?;
    let mut rules = nft::Connection::open().map_err(|error| Unavailable::because(CANNOT, error))?;
    let held = held.clone();
    held.names.get_or_init(Names::default);
    let started = service_counters::start_reading(move || {
        let found = servers.services()?;
        let mut figures = held.names.get().map(|names| figures(&found, names)).unwrap_or_default();
        add_refused(&mut figures, &mut rules)?;
        Ok::<_, SyncError>(figures)
    });
    started.map_err(|error| Unavailable::because(CANNOT, error))
}

/// The sum over all virtual servers of a service port.
fn figures(found: &[ipvs::DumpedServer], names: &Names) -> Vec<Figures> {
    let mut figures = Family::BOTH.map(|family| (family, BTreeMap::<ServicePortName, PortTraffic>::new()));
    let names = names.lock();
    for one in found {
        let Some(name) = names.get(&one.server) else { continue };
        let (_, ports) = &mut figures[Family::of(one.server.address).index()];
        let traffic = ports.entry(ServicePortName::clone(name)).or_default();
        let add = |count: &mut Count, packets, bytes| {
            count.packets += packets;
            count.bytes += bytes;
        };
        add(&mut traffic.requests, one.statistics.in_packets, one.statistics.in_bytes);
        add(&mut traffic.replies, one.statistics.out_packets, one.statistics.out_bytes);
        traffic.connections += one.statistics.connections;
    }
    figures.into()
}

/// The packets that never get to IPVS.
fn add_refused<T: nft::Transport>(figures: &mut [Figures], rules: &mut T) -> Result<(), nft::Error> {
    for (family, ports) in figures {
        for (name, counted) in read_traffic(rules, *family)?.into_iter().filter(|(_, one)| one.refused > 0) {
            ports.entry(name).or_default().refused = counted.refused;
        }
    }
    Ok(())
}
