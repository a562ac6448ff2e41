//! The control plane, a node with its agent, and a second node like it on which an agent is started repeatedly.

use conformance_support::log::complaints;
use conformance_support::site::Site;
use conformance_support::{Api, ControlPlane, Kit, Options, Service, User, paths};
use sandbox::{Namespace, address};
use serde_json::json;
use std::process::Command;
use test_support::directory::{NODE, ZONE};
use test_support::{NodeAgent, SettingsVariant, manifest};

use crate::{kernel_state, services};

/// The ordinary service, older than all others.
pub(crate) const CANARY: Service<'_> = Service::tcp("canary", 77);
pub(crate) const CANARY_V4: &str = "10.96.0.77";
pub(crate) const CANARY_V6: &str = "fd00:96::4d";

/// What the log may grow by for each write, at the agent's wordiest, and how many complaints there may be.
const BYTES_A_WRITE: usize = 8_000;
const COMPLAINTS_A_WRITE: usize = 3;
const JSON: &str = "--kube-api-content-type=application/json";

/// Parts are dropped in this order.
pub(crate) struct Scene {
    agent: NodeAgent,
    pub(crate) site: Site,
    second: Site,
    plane: ControlPlane,
    kit: Kit,
}

impl Scene {
    pub(crate) fn set(kit: Kit) -> Scene {
        let plane = ControlPlane::start(&kit, &Namespace::new().unwrap(), &Options::default()).unwrap();
        let node = manifest::node(NODE, ZONE, &[address::NODE_V4.into(), address::NODE_V6.into()]);
        plane.api().create(paths::NODES, &node).unwrap();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": services::long_namespace()}});
        plane.api().create(&paths::collection(&namespace), &namespace).unwrap();
        CANARY.create(plane.api());
        let (site, second) = (Site::open(&plane), Site::open(&plane));
        let agent = start(&kit, &plane, &site, "agent.log", &[]);
        Scene { agent, site, second, plane, kit }
    }

    pub(crate) fn api(&self) -> &Api {
        self.plane.api()
    }

    /// An agent on the second node. It reads the API as JSON, so that both encodings are held to the same.
    pub(crate) fn twin(&self) -> NodeAgent {
        start(&self.kit, &self.plane, &self.second, "twin.log", &[JSON.to_owned()])
    }

    /// Start the second agent on a node without any rules; then both nodes must come to hold the same.
    pub(crate) fn compare_with_a_fresh_start(
        &self,
        twin: &mut NodeAgent,
        batch: usize,
        what: &dyn Fn() -> String,
    ) {
        twin.kill();
        let mut flush = Command::new("nft");
        flush.args(["flush", "ruleset"]);
        self.second.node().enter(&mut flush).unwrap();
        assert!(flush.status().unwrap().success());
        twin.restart().unwrap_or_else(|why| panic!("batch {batch}: {why}\n{}", what()));
        if let Err(difference) = kernel_state::await_equal(self.site.node(), self.second.node()) {
            let (held, fresh) = (self.agent.log(), twin.log());
            panic!(
                "held and fresh differ: {difference}\nheld:\n{}\nfresh:\n{}\n{}",
                last(&complaints(&held)),
                last(&complaints(&fresh)),
                what()
            );
        }
    }

    pub(crate) fn log_mark(&self) -> usize {
        self.agent.log().len()
    }

    /// Whatever is in objects, the log grows by little.
    pub(crate) fn check_log(&self, mark: usize, writes: usize, what: &dyn Fn() -> String) {
        let log = self.agent.log();
        let said = log.get(mark..).unwrap_or_default();
        let complaints = complaints(said);
        assert!(
            said.len() <= writes * BYTES_A_WRITE && complaints.len() <= writes * COMPLAINTS_A_WRITE,
            "the log grew by {} bytes and {} complaints in {writes} writes:\n{}\n{}",
            said.len(),
            complaints.len(),
            complaints.get(..20).unwrap_or(&complaints).join("\n"),
            what()
        );
    }
}

/// Enough for a failure's message.
fn last(lines: &[&str]) -> String {
    lines.get(lines.len().saturating_sub(12)..).unwrap_or_default().join("\n")
}

fn start(kit: &Kit, plane: &ControlPlane, site: &Site, log: &str, more: &[String]) -> NodeAgent {
    let kubeconfig = plane.kubeconfig(User::PROXY).unwrap();
    let flags = [SettingsVariant::ClusterCidr.flags(), more.to_vec()].concat();
    site.agent(kit, &plane.folder().join(log), &kubeconfig, NODE, &flags)
}
