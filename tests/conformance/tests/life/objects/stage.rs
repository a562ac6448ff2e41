//! The control plane, the node with its agent, and the services of the cases.

use std::net::{IpAddr, SocketAddr};

use conformance_support::log::complaints;
use conformance_support::site::{Caller, Expect, Site};
use conformance_support::{Api, ControlPlane, Kit, Options, Service, User, paths};
use model::Family;
use sandbox::{Namespace, address};
use serde_json::{Value, json};
use test_support::directory::{NODE, ZONE, address_of};
use test_support::world::{Range, address_in, node_port};
use test_support::{EndpointManifest, NodeAgent, ServiceManifest, SettingsVariant, Verdict, manifest};

/// Parts are dropped in this order.
pub(crate) struct Stage {
    agent: NodeAgent,
    pub(crate) site: Site,
    plane: ControlPlane,
}

/// Which of its addresses a service is asked at. Those inside the cluster are asked by a pod, others from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Cluster,
    External,
    Balancer,
    NodePort,
}

/// A service of a case with port 80 for TCP and UDP; all its addresses follow from its number.
#[derive(Clone, Copy)]
pub(crate) struct Web<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) name: &'a str,
    pub(crate) number: u16,
}

impl Stage {
    pub(crate) fn set(kit: &Kit) -> Stage {
        let plane = ControlPlane::start(kit, &Namespace::new().unwrap(), &Options::default()).unwrap();
        let node = manifest::node(NODE, ZONE, &[address::NODE_V4.into(), address::NODE_V6.into()]);
        plane.api().create(paths::NODES, &node).unwrap();
        let site = Site::open(&plane);
        let (log, kubeconfig) =
            (plane.folder().join("kube-proxy.log"), plane.kubeconfig(User::PROXY).unwrap());
        let agent = site.agent(kit, &log, &kubeconfig, NODE, &SettingsVariant::ClusterCidr.flags());
        Stage { agent, site, plane }
    }

    pub(crate) fn api(&self) -> &Api {
        self.plane.api()
    }

    pub(crate) fn web<'a>(&'a self, name: &'a str, number: u16) -> Web<'a> {
        Web { stage: self, name, number }
    }

    /// Warnings and errors of the agent's log.
    pub(crate) fn complaints(&self) -> Verdict {
        let log = self.agent.log();
        let lines = complaints(&log);
        if lines.is_empty() { Verdict::Passed } else { Verdict::Failed(lines.join("\n")) }
    }
}

impl<'a> Web<'a> {
    fn service(self) -> Service<'a> {
        Service::tcp_and_udp(self.name, self.number)
    }

    pub(crate) fn manifest(self) -> ServiceManifest {
        self.service().manifest()
    }

    pub(crate) fn manifest_at(self, ips: &[IpAddr]) -> ServiceManifest {
        self.service().manifest_at(ips)
    }

    /// The ports with a node port.
    pub(crate) fn open_ports(self) -> Value {
        self.ports(80, Some(node_port(self.number)))
    }

    pub(crate) fn ports(self, port: u16, node_port: Option<u16>) -> Value {
        self.service().ports(port, node_port)
    }

    /// Create it as [`Web::manifest`] has it.
    pub(crate) fn create(self) -> Web<'a> {
        self.create_as(&self.manifest())
    }

    pub(crate) fn create_as(self, service: &ServiceManifest) -> Web<'a> {
        self.service().create_as(self.stage.api(), service);
        self
    }

    /// Create it with all ways in from outside, but for the balancer's addresses.
    pub(crate) fn create_open(self) -> Web<'a> {
        let manifest = self.manifest().with("type", "LoadBalancer").with("ports", self.open_ports());
        self.create_as(&manifest)
    }

    /// Make these pods its endpoints: a slice a family.
    pub(crate) fn serve_by(self, pods: &[&str]) -> Web<'a> {
        self.serve_in("1", pods, |_, endpoint| endpoint)
    }

    /// The same in slices of another name, with each endpoint changed, by its name.
    pub(crate) fn serve_in(
        self,
        suffix: &str,
        pods: &[&str],
        change: impl Fn(&str, EndpointManifest) -> EndpointManifest,
    ) -> Web<'a> {
        self.service().serve_in(self.stage.api(), suffix, pods, change);
        self
    }

    pub(crate) fn patch(self, part: Value) -> Value {
        self.stage.api().patch(&self.service().path(), &part).unwrap()
    }

    pub(crate) fn patch_spec(self, spec: Value) -> Value {
        self.patch(json!({"spec": spec}))
    }

    pub(crate) fn patch_slices(self, part: &Value) {
        for family in Family::BOTH {
            self.stage.api().patch(&self.service().slice_path("1", family), part).unwrap();
        }
    }

    /// What the balancer says of its addresses; with no mode it has none.
    pub(crate) fn balance(self, mode: Option<&str>) {
        let ingress: Vec<Value> = mode.map_or(Vec::new(), |mode| {
            self.ips(Range::Balancer).map(|ip| json!({"ip": ip, "ipMode": mode})).to_vec()
        });
        let status = json!({"status": {"loadBalancer": {"ingress": ingress}}});
        self.stage.api().patch_status(&self.service().path(), &status).unwrap();
    }

    pub(crate) fn delete(self) {
        self.service().delete(self.stage.api());
    }

    pub(crate) fn delete_slices(self, suffix: &str) {
        self.service().delete_slices(self.stage.api(), suffix);
    }

    pub(crate) fn ips(self, range: Range) -> [IpAddr; 2] {
        self.service().ips(range)
    }

    pub(crate) fn address(self, at: At, family: Family) -> SocketAddr {
        let vip = |range| SocketAddr::new(address_in(range, self.number, family), 80);
        match at {
            At::Cluster => vip(Range::Cluster),
            At::External => vip(Range::External),
            At::Balancer => vip(Range::Balancer),
            At::NodePort => SocketAddr::new(address_of("node", family), node_port(self.number)),
        }
    }

    /// In both families, by TCP and UDP.
    pub(crate) fn expect(self, at: At, expected: Expect<'_>) {
        Family::BOTH.into_iter().for_each(|family| self.expect_in(family, at, expected));
    }

    pub(crate) fn expect_in(self, family: Family, at: At, expected: Expect<'_>) {
        self.expect_at(self.address(at, family), at.caller(), expected);
    }

    pub(crate) fn expect_at(self, to: SocketAddr, caller: Caller, expected: Expect<'_>) {
        for protocol in self.service().protocols {
            self.stage.site.expect(caller, *protocol, to, expected);
        }
    }
}

impl At {
    pub(crate) fn caller(self) -> Caller {
        match self {
            At::Cluster => Caller::Pod("guest"),
            At::External | At::Balancer | At::NodePort => Caller::Outside(None),
        }
    }
}
