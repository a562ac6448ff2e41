//! The control plane with a few services, and the nodes of the cases.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;

use conformance_support::log::Mark;
use conformance_support::site::{Caller, Expect, Site};
use conformance_support::{Api, ControlPlane, Kit, Options, Service, User, paths};
use model::{Family, Protocol};
use sandbox::{Namespace, address};
use serde_json::{Value, json};
use test_support::directory::ZONE;
use test_support::world::node_port;
use test_support::{NodeAgent, manifest};

/// Served by a pod of another node, so that masquerading shows; it has a node port.
const REMOTE: Service<'_> = Service::tcp("remote", 20);
/// Served by `a` for the first zone and by `c` for the second one.
const ZONED: Service<'_> = Service::tcp("zoned", 21);
pub(crate) const SECOND_ZONE: &str = "zone-2";

pub(crate) struct Cluster {
    plane: ControlPlane,
    kit: Kit,
}

/// A node: its Node object if any, its namespace, its agent's log.
pub(crate) struct Spot<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) site: Site,
    pub(crate) name: &'static str,
}

impl Cluster {
    pub(crate) fn start(kit: Kit) -> Cluster {
        let plane = ControlPlane::start(&kit, &Namespace::new().unwrap(), &Options::default()).unwrap();
        let cluster = Cluster { plane, kit };
        cluster.create_service(REMOTE, &["c"], |_| None);
        cluster.create_service(ZONED, &["a", "c"], |pod| Some(if pod == "a" { ZONE } else { SECOND_ZONE }));
        cluster
    }

    pub(crate) fn api(&self) -> &Api {
        self.plane.api()
    }

    fn create_service(
        &self,
        service: Service<'_>,
        pods: &[&str],
        zone_of: impl Fn(&str) -> Option<&'static str>,
    ) {
        let ports = service.ports(80, Some(node_port(service.number)));
        let manifest = service.manifest().with("type", "NodePort").with("ports", ports);
        service.create_as(self.api(), &manifest);
        service.serve_in(self.api(), "1", pods, |pod, endpoint| match zone_of(pod) {
            Some(zone) => endpoint.hint("forZones", zone),
            None => endpoint,
        });
    }

    /// A node without a Node object.
    pub(crate) fn bare_spot(&self, name: &'static str) -> Spot<'_> {
        Spot { cluster: self, site: Site::open(&self.plane), name }
    }

    /// A node with its usual addresses in the first zone.
    pub(crate) fn spot(&self, name: &'static str) -> Spot<'_> {
        let spot = self.bare_spot(name);
        spot.register(&spot.object());
        spot
    }
}

impl Spot<'_> {
    pub(crate) fn object(&self) -> Value {
        manifest::node(self.name, ZONE, &[address::NODE_V4.into(), address::NODE_V6.into()])
    }

    pub(crate) fn register(&self, node: &Value) {
        self.cluster.api().create(paths::NODES, node).unwrap();
    }

    pub(crate) fn patch(&self, part: Value) {
        self.cluster.api().patch(&self.path(), &part).unwrap();
    }

    pub(crate) fn set_addresses(&self, ips: &[IpAddr]) {
        let addresses: Vec<Value> =
            ips.iter().map(|ip| json!({"type": "InternalIP", "address": ip})).collect();
        self.cluster.api().patch_status(&self.path(), &json!({"status": {"addresses": addresses}})).unwrap();
    }

    pub(crate) fn unregister(&self) {
        self.cluster.api().delete(&self.path()).unwrap();
    }

    fn path(&self) -> String {
        format!("{}/{}", paths::NODES, self.name)
    }

    pub(crate) fn agent(&self, flags: &[&str]) -> NodeAgent {
        self.agent_called(self.name, flags)
    }

    pub(crate) fn agent_called(&self, name: &str, flags: &[&str]) -> NodeAgent {
        let plane = &self.cluster.plane;
        let log = plane.folder().join(format!("{}.log", self.name));
        let kubeconfig = plane.kubeconfig(User::PROXY).unwrap();
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        self.site.agent(&self.cluster.kit, &log, &kubeconfig, name, &flags)
    }

    /// Start the agent again on a node that no agent has been on; the mark is where its log begins.
    pub(crate) fn launch_afresh(&self, agent: &mut NodeAgent) -> Mark {
        self.nft(&["flush", "ruleset"]);
        let mark = Mark::now(agent);
        agent.launch().unwrap();
        mark
    }

    /// No rules, and the agent says so.
    pub(crate) fn expect_nothing_programmed(&self, agent: &NodeAgent) {
        assert_eq!(self.nft(&["list", "tables"]), "");
        assert_ne!(agent.probe("/readyz"), Some(200));
        for family in Family::BOTH {
            self.expect(Caller::Pod("guest"), remote(family), Expect::Silence);
        }
    }

    /// The service on another node answers in both families.
    pub(crate) fn expect_programmed(&self) {
        for family in Family::BOTH {
            self.expect(Caller::Pod("guest"), remote(family), Expect::By(&["c"]));
        }
    }

    pub(crate) fn expect(&self, caller: Caller, to: SocketAddr, expected: Expect<'_>) {
        self.site.expect(caller, Protocol::Tcp, to, expected);
    }

    fn nft(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("nft");
        self.site.node().enter(command.args(arguments)).unwrap();
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

pub(crate) fn remote(family: Family) -> SocketAddr {
    REMOTE.at(family)
}

pub(crate) fn zoned(family: Family) -> SocketAddr {
    ZONED.at(family)
}

/// The remote service's node port at an address of the node.
pub(crate) fn remote_at(node: impl Into<IpAddr>) -> SocketAddr {
    SocketAddr::new(node.into(), node_port(REMOTE.number))
}
