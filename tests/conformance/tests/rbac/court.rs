//! A control plane, and per case a node with a service account and a service of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use conformance_support::site::{Caller, Expect, SOON, Site};
use conformance_support::{Api, ControlPlane, Kit, Options, Service, paths};
use model::{Family, Protocol};
use sandbox::{Namespace, address};
use serde_json::{Value, json};
use test_support::directory::ZONE;
use test_support::{NodeAgent, SettingsVariant, manifest, wait_until};

use crate::account::{self, ACCOUNTS};

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
        party.with_first(|service| service.create(self.api()));
        party.point_at("a");
        party
    }
}

impl Party<'_> {
    fn with_first(&self, act: impl FnOnce(Service<'_>)) {
        act(Service::tcp(&format!("{}-first", self.name), self.number));
    }

    fn with_second(&self, act: impl FnOnce(Service<'_>)) {
        act(Service::tcp(&format!("{}-second", self.name), self.number + 1));
    }

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
        self.site.agent(&self.court.kit, &log, &kubeconfig, &self.name, &SettingsVariant::ClusterCidr.flags())
    }

    /// One more service, without endpoints.
    pub(crate) fn create_second_service(&self) {
        self.with_second(|service| service.create(self.court.api()));
    }

    /// Make a pod the endpoint of the first service.
    pub(crate) fn point_at(&self, pod: &str) {
        self.with_first(|service| service.serve_by(self.court.api(), &[pod]));
    }

    pub(crate) fn expect_first(&self, expected: Expect<'_>) {
        self.with_first(|service| self.expect_service(service, expected));
    }

    pub(crate) fn expect_second(&self, expected: Expect<'_>) {
        self.with_second(|service| self.expect_service(service, expected));
    }

    fn expect_service(&self, service: Service<'_>, expected: Expect<'_>) {
        Family::BOTH.into_iter().for_each(|family| self.expect(service.at(family), expected));
    }

    pub(crate) fn expect(&self, to: SocketAddr, expected: Expect<'_>) {
        self.site.expect(Caller::Pod("guest"), Protocol::Tcp, to, expected);
    }

    /// Give the party's role these rules, and wait until the server goes by them.
    pub(crate) fn permit(&self, rules: &Value, probe: (&str, &str), allowed: bool) {
        account::set_rules(self.court.api(), &self.name, rules);
        let came = wait_until(SOON, || account::may(self.court.api(), &self.name, probe) == allowed);
        assert!(came, "{} may {probe:?}: not {allowed}", self.name);
    }
}
