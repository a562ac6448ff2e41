//! The control plane with a few services, and the nodes of the cases.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;

use conformance::{Api, ControlPlane, Kit, Options, User, paths};
use model::{Family, Protocol};
use sandbox::{Namespace, address};
use scenarios::directory::{MAIN_PORT, ZONE, address_of, node_of};
use scenarios::world::{Range, address_in, node_port};
use scenarios::{EndpointManifest, NodeAgent, ServiceManifest, SliceManifest, manifest, wait_until};
use serde_json::{Value, json};

use crate::site::{Caller, Expect, SOON, Site};

/// Served by a pod of another node, so that masquerading shows; it has a node port.
const REMOTE: u16 = 20;
/// Served by `a` for the first zone and by `c` for the second one.
const ZONED: u16 = 21;
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
        cluster.create_service("remote", REMOTE, &[("c", None)]);
        cluster.create_service("zoned", ZONED, &[("a", Some(ZONE)), ("c", Some(SECOND_ZONE))]);
        cluster
    }

    pub(crate) fn api(&self) -> &Api {
        self.plane.api()
    }

    fn create_service(&self, name: &str, number: u16, endpoints: &[(&str, Option<&str>)]) {
        let ips = Family::BOTH.map(|family| address_in(Range::Cluster, number, family));
        let service = ServiceManifest::new(name, &ips).with("type", "NodePort");
        let service = service.port("main", Protocol::Tcp, 80, node_port(number));
        self.api().create(paths::SERVICES, &service.to_json()).unwrap();
        for family in Family::BOTH {
            let mut slice = SliceManifest::new(name, "1", family).port("main", Protocol::Tcp, MAIN_PORT);
            for (pod, zone) in endpoints {
                let endpoint = EndpointManifest::new(address_of(pod, family), node_of(pod));
                slice =
                    slice.endpoint(&zone.map_or(endpoint.clone(), |zone| endpoint.hint("forZones", zone)));
            }
            self.api().create(paths::SLICES, &slice.to_json()).unwrap();
        }
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

    /// Start the agent again on a node that no agent has been on.
    pub(crate) fn launch_afresh(&self, agent: &mut NodeAgent) {
        self.nft(&["flush", "ruleset"]);
        agent.launch().unwrap();
    }

    /// Wait until the log has a line with these words.
    pub(crate) fn await_line(&self, agent: &NodeAgent, words: &str) {
        let said = wait_until(2 * SOON, || agent.log().contains(words));
        assert!(said, "{words:?} is not in the log:\n{}", agent.log());
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
    SocketAddr::new(address_in(Range::Cluster, REMOTE, family), 80)
}

pub(crate) fn zoned(family: Family) -> SocketAddr {
    SocketAddr::new(address_in(Range::Cluster, ZONED, family), 80)
}

/// The remote service's node port at an address of the node.
pub(crate) fn remote_at(node: impl Into<IpAddr>) -> SocketAddr {
    SocketAddr::new(node.into(), node_port(REMOTE))
}
