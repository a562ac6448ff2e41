//! The services the flow table is about. Each is there for one rule; its comment says which.
//!
//! A service has a number, and all its addresses follow from it: cluster IP `10.96.0.N` and `fd00:96::N`,
//! external IP `198.51.100.N`, balancer IP `203.0.113.N` and so on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use model::{Family, Protocol};
use sandbox::address;

use crate::directory::{MAIN_PORT, NODE, SECOND_PORT, ZONE, address_of, node_of};
use crate::manifest::{self, EndpointManifest, ManifestFolder, ServiceManifest, SliceManifest};
use Protocol::{Sctp, Tcp, Udp};

mod services;

/// The number of the balancer's second address, which a client may have as its source.
pub const SECOND_BALANCER: u16 = 200;

/// A range of addresses from which each service has the one of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    Cluster,
    External,
    Balancer,
}

pub fn address_in(range: Range, number: u16, family: Family) -> IpAddr {
    let (v4, v6): (Ipv4Addr, Ipv6Addr) = match range {
        Range::Cluster => (address::SERVICES_V4.network(), address::SERVICES_V6.network()),
        Range::External => (address::EXTERNAL_V4.network(), address::EXTERNAL_V6.network()),
        Range::Balancer => (address::LOAD_BALANCER_V4.network(), address::LOAD_BALANCER_V6.network()),
    };
    match family {
        Family::V4 => Ipv4Addr::from_bits(v4.to_bits() + u32::from(number)).into(),
        Family::V6 => Ipv6Addr::from_bits(v6.to_bits() + u128::from(number)).into(),
    }
}

/// One service with its slices.
#[derive(Clone, Debug)]
pub struct Entry {
    pub number: u16,
    pub manifest: ServiceManifest,
    pub slices: Vec<SliceManifest>,
}

impl Entry {
    fn new(name: &str, number: u16) -> Entry {
        let ips = Family::BOTH.map(|family| address_in(Range::Cluster, number, family));
        Entry { number, manifest: ServiceManifest::new(name, &ips), slices: Vec::new() }
    }

    fn both(&self, range: Range) -> [IpAddr; 2] {
        Family::BOTH.map(|family| address_in(range, self.number, family))
    }

    fn edit(mut self, change: impl FnOnce(ServiceManifest) -> ServiceManifest) -> Entry {
        self.manifest = change(self.manifest);
        self
    }

    /// Port 80 for each protocol, with a node port of the service's number.
    fn web_ports(self) -> Entry {
        let node_port = node_port(self.number);
        self.edit(|service| {
            [Tcp, Udp, Sctp].into_iter().fold(service, |service, protocol| {
                service.port(&protocol.to_string(), protocol, 80, node_port)
            })
        })
    }

    /// All ways in from outside: external IP, balancer IP, node port.
    fn open(self) -> Entry {
        let (external, balancer) = (self.both(Range::External), self.both(Range::Balancer));
        self.edit(|service| {
            let service = service.with("type", "LoadBalancer").external_ips(&external);
            balancer.into_iter().fold(service, |service, ip| service.balancer_ip(ip, "VIP"))
        })
    }

    fn with(self, field: &str, value: impl Into<serde_json::Value>) -> Entry {
        self.edit(|service| service.with(field, value))
    }

    /// Endpoints behind [`Entry::web_ports`], as one more slice a family.
    fn endpoints(self, names: &[&str]) -> Entry {
        self.endpoints_as(names, |_, endpoint| endpoint)
    }

    /// The same, each changed by `change`, which also gets its name.
    fn endpoints_as(
        self,
        names: &[&str],
        change: impl Fn(&str, EndpointManifest) -> EndpointManifest,
    ) -> Entry {
        let ports = [Tcp, Udp, Sctp].map(|protocol| (protocol.to_string(), protocol, MAIN_PORT));
        self.slice(&ports, names, change)
    }

    fn slice(
        mut self,
        ports: &[(impl AsRef<str>, Protocol, u16)],
        names: &[&str],
        change: impl Fn(&str, EndpointManifest) -> EndpointManifest,
    ) -> Entry {
        let suffix = format!("s{}", self.slices.len() / 2);
        for family in Family::BOTH {
            let mut slice = SliceManifest::new(self.manifest.name(), &suffix, family);
            for (name, protocol, port) in ports {
                slice = slice.port(name.as_ref(), *protocol, *port);
            }
            for name in names {
                let endpoint = EndpointManifest::new(address_of(name, family), node_of(name));
                slice = slice.endpoint(&change(name, endpoint));
            }
            self.slices.push(slice);
        }
        self
    }
}

/// The node port of a service's number; its other ports have the following ones.
pub fn node_port(number: u16) -> u16 {
    30_000 + 10 * number
}

/// All services of the table.
#[derive(Clone, Debug)]
pub struct World {
    entries: Vec<Entry>,
}

impl World {
    pub fn new() -> World {
        let entries = services::all();
        for (i, entry) in entries.iter().enumerate() {
            let twin = entries.iter().take(i).find(|other| other.number == entry.number);
            assert!(twin.is_none(), "{} and {twin:?} have one number", entry.manifest.name());
        }
        World { entries }
    }

    pub fn number(&self, service: &str) -> u16 {
        let found = self.entries.iter().find(|entry| entry.manifest.name() == service);
        found.unwrap_or_else(|| panic!("the world has no service {service}")).number
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Everything as manifests, the node and the ServiceCIDR included.
    pub fn write_to(&self, folder: &ManifestFolder) {
        let node_ips = [address::NODE_V4.into(), address::NODE_V6.into()];
        folder.put("node", &manifest::node(NODE, ZONE, &node_ips));
        let cidrs: [IpNet; 2] = [address::SERVICES_V4.into(), address::SERVICES_V6.into()];
        folder.put("service-cidr", &manifest::service_cidr("kubernetes", &cidrs));
        for entry in &self.entries {
            folder.put_service(&entry.manifest);
            entry.slices.iter().for_each(|slice| folder.put_slice(slice));
        }
    }
}

impl Default for World {
    fn default() -> World {
        World::new()
    }
}
