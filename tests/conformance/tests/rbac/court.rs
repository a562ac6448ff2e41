//! A control plane, and per case a node with a service account and a service of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use conformance::{Api, ControlPlane, Kit, Options, paths};
use model::{Family, Protocol};
use sandbox::{Namespace, address};
use scenarios::directory::{MAIN_PORT, ZONE, address_of, node_of};
use scenarios::world::{Range, address_in};
use scenarios::{EndpointManifest, NodeAgent, ServiceManifest, SliceManifest, Variant, manifest, wait_until};
use serde_json::{Value, json};

use crate::account::{self, ACCOUNTS};
use crate::site::{Caller, Expect, SOON, Site};

pub(crate) struct Court {
    plane: ControlPlane,
    kit: Kit,
}

/// One agent with its account, node and service.
pub(crate) struct Party<'a> {
    pub(crate) court: &'a Court,
    pub(crate) site: Site,
    /// Of node, account and role; the service's name begins with it.
    pub(crate) name: String,
    number: u16,
}

impl Court {
    pub(crate) fn open(kit: &Kit, streaming_lists: bool) -> Court {
        let options = Options { streaming_lists, ..Options::default() };
        let plane = ControlPlane::start(kit, &Namespace::new().unwrap(), &options).unwrap();
        let there = || plane.api().get("/api/v1/namespaces/kube-system").is_ok();
        assert!(wait_until(SOON, there), "the apiserver made no kube-system");
        Court { plane, kit: kit.clone() }
    }

    pub(crate) fn api(&self) -> &Api {
        self.plane.api()
    }

    /// A node of that name, and a service of that number with the endpoint `a`.
    pub(crate) fn party(&self, name: &str, number: u16) -> Party<'_> {
        let node = manifest::node(name, ZONE, &[address::NODE_V4.into(), address::NODE_V6.into()]);
        self.api().create(paths::NODES, &node).unwrap();
        let party = Party { court: self, site: Site::open(&self.plane), name: name.to_owned(), number };
        party.create_service(&format!("{name}-first"), party.number);
        party.point_at("a");
        party
    }
}

impl Party<'_> {
    /// A kubeconfig whose token, in a file, the API gave to a service account of kube-system.
    pub(crate) fn kubeconfig(&self, account: &str) -> PathBuf {
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        });
        let granted = self.court.api().create(&format!("{ACCOUNTS}/{account}/token"), &request).unwrap();
        let token = granted.pointer("/status/token").and_then(Value::as_str).expect("a token");
        let (kubeconfig, file) = self.court.plane.kubeconfig_with_token_file(account).unwrap();
        fs::write(file, token).unwrap();
        kubeconfig
    }

    pub(crate) fn agent(&self, account: &str) -> NodeAgent {
        let log = self.court.plane.folder().join(format!("{}.log", self.name));
        let kubeconfig = self.kubeconfig(account);
        self.site.agent(&self.court.kit, &log, &kubeconfig, &self.name, &Variant::ClusterCidr.flags())
    }

    /// One more service, without endpoints.
    pub(crate) fn create_second_service(&self) {
        self.create_service(&format!("{}-second", self.name), self.number + 1);
    }

    fn create_service(&self, name: &str, number: u16) {
        let ips = Family::BOTH.map(|family| address_in(Range::Cluster, number, family));
        let service = ServiceManifest::new(name, &ips).port("main", Protocol::Tcp, 80, 0);
        self.court.api().create(paths::SERVICES, &service.to_json()).unwrap();
    }

    /// Make a pod the endpoint of the first service.
    pub(crate) fn point_at(&self, pod: &str) {
        let name = format!("{}-first", self.name);
        for family in Family::BOTH {
            let endpoint = EndpointManifest::new(address_of(pod, family), node_of(pod));
            let slice = SliceManifest::new(&name, "1", family).port("main", Protocol::Tcp, MAIN_PORT);
            let slice = slice.endpoint(&endpoint).to_json();
            self.court.api().apply(&paths::object(&slice), &slice).unwrap();
        }
    }

    pub(crate) fn expect_first(&self, expected: Expect<'_>) {
        self.expect_service(self.number, expected);
    }

    pub(crate) fn expect_second(&self, expected: Expect<'_>) {
        self.expect_service(self.number + 1, expected);
    }

    fn expect_service(&self, number: u16, expected: Expect<'_>) {
        for family in Family::BOTH {
            self.expect(SocketAddr::new(address_in(Range::Cluster, number, family), 80), expected);
        }
    }

    pub(crate) fn expect(&self, to: SocketAddr, expected: Expect<'_>) {
        self.site.expect(Caller::Pod("guest"), Protocol::Tcp, to, expected);
    }

    /// Wait until the log has a line with all of these words.
    pub(crate) fn await_line(&self, agent: &NodeAgent, words: &[&str]) {
        let has_all = |line: &str| words.iter().all(|word| line.contains(word));
        let said = wait_until(SOON, || agent.log().lines().any(has_all));
        assert!(said, "no line with {words:?} in the log:\n{}", agent.log());
    }

    /// Give the party's role these rules, and wait until the server goes by them.
    pub(crate) fn permit(&self, rules: &Value, probe: (&str, &str), allowed: bool) {
        account::set_rules(self.court.api(), &self.name, rules);
        let came = wait_until(SOON, || account::may(self.court.api(), &self.name, probe) == allowed);
        assert!(came, "{} may {probe:?}: not {allowed}", self.name);
    }
}
