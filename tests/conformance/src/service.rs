//! Services of the cases with their slices: names, addresses and node ports follow from a name and a number.

use std::net::{IpAddr, SocketAddr};

use model::{Family, Protocol};
use serde_json::{Value, json};
use test_support::directory::{MAIN_PORT, address_of, node_of};
use test_support::world::{Range, address_in};
use test_support::{EndpointManifest, ServiceManifest, SliceManifest};

use crate::api::Api;
use crate::paths;

/// A service with port 80 for each of its protocols; ports are called like their protocols.
#[derive(Clone, Copy, Debug)]
pub struct Service<'a> {
    pub name: &'a str,
    pub number: u16,
    pub protocols: &'static [Protocol],
}

impl<'a> Service<'a> {
    pub const fn tcp(name: &'a str, number: u16) -> Service<'a> {
        Service { name, number, protocols: &[Protocol::Tcp] }
    }

    pub const fn tcp_and_udp(name: &'a str, number: u16) -> Service<'a> {
        Service { name, number, protocols: &[Protocol::Tcp, Protocol::Udp] }
    }

    pub fn ips(self, range: Range) -> [IpAddr; 2] {
        Family::BOTH.map(|family| address_in(range, self.number, family))
    }

    /// Its port at its cluster IP.
    pub fn at(self, family: Family) -> SocketAddr {
        SocketAddr::new(address_in(Range::Cluster, self.number, family), 80)
    }

    pub fn manifest(self) -> ServiceManifest {
        self.manifest_at(&self.ips(Range::Cluster))
    }

    /// With these cluster IPs; none are to be chosen by the API, or there is to be none.
    pub fn manifest_at(self, ips: &[IpAddr]) -> ServiceManifest {
        self.protocols.iter().fold(ServiceManifest::new(self.name, ips), |service, protocol| {
            service.port(&protocol.to_string(), *protocol, 80, 0)
        })
    }

    /// The ports of its spec, to be changed or with a node port.
    pub fn ports(self, port: u16, node_port: Option<u16>) -> Value {
        let one = |protocol: &Protocol| {
            let name = protocol.to_string();
            json!({"name": name, "protocol": name.to_uppercase(), "port": port, "nodePort": node_port})
        };
        self.protocols.iter().map(one).collect()
    }

    /// A slice without endpoints.
    fn slice(self, suffix: &str, family: Family) -> SliceManifest {
        let slice = SliceManifest::new(self.name, suffix, family);
        self.protocols
            .iter()
            .fold(slice, |slice, protocol| slice.port(&protocol.to_string(), *protocol, MAIN_PORT))
    }

    pub fn create(self, api: &Api) {
        self.create_as(api, &self.manifest());
    }

    pub fn create_as(self, api: &Api, service: &ServiceManifest) {
        api.create(paths::SERVICES, &service.to_json()).unwrap();
    }

    /// Make these pods its endpoints: a slice a family.
    pub fn serve_by(self, api: &Api, pods: &[&str]) {
        self.serve_in(api, "1", pods, |_, endpoint| endpoint);
    }

    /// The same in slices of another name, with each endpoint changed, by its name.
    pub fn serve_in(
        self,
        api: &Api,
        suffix: &str,
        pods: &[&str],
        change: impl Fn(&str, EndpointManifest) -> EndpointManifest,
    ) {
        for family in Family::BOTH {
            let endpoint = |pod: &str| EndpointManifest::new(address_of(pod, family), node_of(pod));
            let slice = pods
                .iter()
                .fold(self.slice(suffix, family), |slice, pod| slice.endpoint(&change(pod, endpoint(pod))));
            let slice = slice.to_json();
            api.apply(&paths::object(&slice), &slice).unwrap();
        }
    }

    pub fn delete(self, api: &Api) {
        api.delete(&self.path()).unwrap();
    }

    pub fn delete_slices(self, api: &Api, suffix: &str) {
        for family in Family::BOTH {
            api.delete(&self.slice_path(suffix, family)).unwrap();
        }
    }

    pub fn path(self) -> String {
        format!("{}/{}", paths::SERVICES, self.name)
    }

    pub fn slice_path(self, suffix: &str, family: Family) -> String {
        paths::object(&self.slice(suffix, family).to_json())
    }
}
