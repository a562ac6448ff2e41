//! A control plane, a sandbox with servers in it, and what the cases do with them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use conformance_support::log::end_of;
use conformance_support::site::SOON;
use conformance_support::{
    Api, ControlPlane, Kit, Options, Running, Service, Traffic, Upstream, User, paths,
};
use model::Family;
use sandbox::{Namespace, Outcome, address, probe};
use serde_json::json;
use test_support::directory::{NODE, ZONE};
use test_support::packets::Ground;
use test_support::{ANSWER, Carrier, NodeAgent, SettingsVariant, Source, manifest, patient, wait_until};

/// How long to listen to what must be silence.
const SILENCE: Duration = Duration::from_secs(1);
/// Users beside the usual ones; what they may do is up to the cases.
pub(crate) const ROTATING: &str = "rotating";
pub(crate) const LIMITED: &str = "limited";
pub(crate) const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// Parts are dropped in this order.
pub(crate) struct World {
    pub(crate) plane: ControlPlane,
    pub(crate) ground: Ground,
    kit: Kit,
}

impl World {
    pub(crate) fn start(kit: &Kit, streaming_lists: bool) -> World {
        let ground = Ground::new().unwrap();
        let users = [ROTATING, LIMITED].map(|name| User::new(name, &[])).to_vec();
        let options = Options { streaming_lists, users, ..Options::default() };
        let plane = ControlPlane::start(kit, &ground.sandbox.node, &options).unwrap();
        let node = manifest::node(NODE, ZONE, &[address::NODE_V4.into(), address::NODE_V6.into()]);
        plane.api().create(paths::NODES, &node).unwrap();
        World { plane, ground, kit: kit.clone() }
    }

    /// Whatever the last case left behind, the apiserver runs.
    pub(crate) fn mend(&mut self) {
        if self.api().text("/readyz").is_err() {
            self.plane.apiserver.kill();
            self.plane.apiserver.start().unwrap();
        }
    }

    pub(crate) fn api(&self) -> &Api {
        self.plane.api()
    }

    /// Start the agent as usual and wait until all rules are in place.
    pub(crate) fn agent(&self, case: &str) -> NodeAgent {
        let kubeconfig = self.plane.kubeconfig(User::PROXY).unwrap();
        self.agent_with(case, &kubeconfig, &[])
    }

    pub(crate) fn agent_with(&self, case: &str, kubeconfig: &Path, flags: &[&str]) -> NodeAgent {
        let mut all = SettingsVariant::ClusterCidr.flags();
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let source =
            Source { flag: format!("--kubeconfig={}", kubeconfig.display()), log: self.log_of(case) };
        NodeAgent::start(&self.kit.kube_proxy, &self.ground.sandbox.node, source, NODE, &all).unwrap()
    }

    /// Start upstream's and wait until both families are synced.
    pub(crate) fn upstream(&self) -> Running {
        Running::upstream(&self.kit, &self.plane, &self.ground.sandbox.node, SettingsVariant::ClusterCidr)
            .unwrap()
    }

    /// The same in another mode.
    pub(crate) fn upstream_as(&self, carrier: Carrier) -> Upstream {
        let (node, folder) = (&self.ground.sandbox.node, self.plane.folder());
        let kubeconfig = self.plane.kubeconfig(User::PROXY).unwrap();
        let mut flags = Upstream::flags(SettingsVariant::ClusterCidr);
        flags.extend(carrier.flags());
        Upstream::start_as(carrier, &self.kit.upstream, node, &kubeconfig, NODE, &flags, folder).unwrap()
    }

    pub(crate) fn kube_proxy(&self) -> &Path {
        &self.kit.kube_proxy
    }

    pub(crate) fn log_of(&self, case: &str) -> PathBuf {
        self.plane.folder().join(format!("{case}.log"))
    }

    pub(crate) fn guest(&self) -> &Namespace {
        &self.ground.sandbox.pod("guest").unwrap().namespace
    }

    /// Connections to it without end.
    pub(crate) fn traffic(&self, service: Service<'_>) -> Traffic {
        Traffic::start(self.guest(), Family::BOTH.map(|family| service.at(family)))
    }

    fn ask_for(&self, service: Service<'_>, family: Family, patience: Duration) -> Outcome {
        probe::tcp(self.guest(), None, service.at(family), patience)
    }

    /// Wait until the pod answers in both families, and say how long that took.
    pub(crate) fn await_answer(&self, service: Service<'_>, pod: &str) -> Duration {
        self.await_outcome(service, patient(ANSWER), |outcome| outcome.by() == Some(pod), pod)
    }

    /// Its address is not in use: packets to it are dropped.
    pub(crate) fn await_silence(&self, service: Service<'_>) -> Duration {
        self.await_outcome(service, SILENCE, |outcome| *outcome == Outcome::TimedOut, "silence")
    }

    fn await_outcome(
        &self,
        service: Service<'_>,
        patience: Duration,
        wanted: impl Fn(&Outcome) -> bool,
        what: &str,
    ) -> Duration {
        let started = Instant::now();
        for family in Family::BOTH {
            let mut last = Outcome::Closed;
            let came = wait_until(SOON, || {
                last = self.ask_for(service, family, patience);
                wanted(&last)
            });
            assert!(
                came,
                "{} at {}: {last:?}, not {what}\n{}",
                service.name,
                service.at(family),
                self.logs()
            );
        }
        started.elapsed()
    }

    /// The logs of all agents so far, for a failure's message.
    fn logs(&self) -> String {
        let files = std::fs::read_dir(self.plane.folder()).unwrap().flatten().map(|entry| entry.path());
        let logs = files.filter(|path| path.extension().is_some_and(|end| end == "log"));
        let own = logs.filter(|path| !path.ends_with("etcd.log") && !path.ends_with("kube-apiserver.log"));
        own.map(|path| {
            format!("{}:\n{}", path.display(), end_of(&std::fs::read_to_string(&path).unwrap_or_default()))
        })
        .collect()
    }

    pub(crate) fn create(&self, service: Service<'_>, pod: &str) {
        service.create(self.api());
        self.point_at(service, pod);
    }

    pub(crate) fn point_at(&self, service: Service<'_>, pod: &str) {
        service.serve_by(self.api(), &[pod]);
    }

    pub(crate) fn delete(&self, service: Service<'_>) {
        service.delete(self.api());
        service.delete_slices(self.api(), "1");
    }

    /// Let a user do what a cluster role says.
    pub(crate) fn bind(&self, user: &str, role: &str) {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("{user}-{}", role.replace(':', "-"))},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        self.api().create(BINDINGS, &binding).unwrap();
    }
}
