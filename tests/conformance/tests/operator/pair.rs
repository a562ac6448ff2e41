//! Our agent and upstream's kube-proxy, each on a node of its own, with the same objects and the same flags.

use std::path::PathBuf;
use std::process::Command;

use conformance_support::release;
use conformance_support::site::{SOON, Site};
use conformance_support::{Api, ControlPlane, Kit, Options, Service, Upstream, User, paths};
use model::Family;
use sandbox::{Namespace, address};
use serde_json::{Value, json};
use test_support::directory::ZONE;
use test_support::{NodeAgent, SettingsVariant, manifest, wait_until};

use crate::ask::{Answer, PAGES, PROBES, get};

const OURS: &str = "ours";
const UPSTREAM: &str = "upstream";
/// Both get the same: what one of them is given by the harness, the other is given here.
const GIVEN: [&str; 8] = [
    "--proxy-mode=nftables",
    "--profiling",
    "-v=4",
    "--oom-score-adj=0",
    "--conntrack-max-per-core=0",
    "--conntrack-min=0",
    "--conntrack-tcp-timeout-established=0",
    "--conntrack-tcp-timeout-close-wait=0",
];
/// They have no series before the first change.
const NEED_A_CHANGE: [&str; 2] =
    ["kubeproxy_sync_partial_proxy_rules_duration_seconds", "kubeproxy_network_programming_duration_seconds"];
const WEB: Service<'_> = Service::tcp_and_udp("web", 20);

/// Parts are dropped in this order.
pub(crate) struct Pair {
    _agent: NodeAgent,
    _upstream: Upstream,
    pub(crate) ours: Side,
    pub(crate) theirs: Side,
    pub(crate) plane: ControlPlane,
    pub(crate) kit: Kit,
    pub(crate) kubeconfig: PathBuf,
}

/// The node of one of them.
pub(crate) struct Side {
    pub(crate) name: &'static str,
    site: Site,
}

impl Side {
    fn open(plane: &ControlPlane, name: &'static str) -> Side {
        let node = manifest::node(name, ZONE, &[address::NODE_V4.into(), address::NODE_V6.into()]);
        plane.api().create(paths::NODES, &node).unwrap();
        Side { name, site: Site::open(plane) }
    }

    fn node(&self) -> &Namespace {
        self.site.node()
    }

    pub(crate) fn get(&self, port: u16, path: &str) -> Answer {
        self.accepting(port, path, "")
    }

    pub(crate) fn accepting(&self, port: u16, path: &str, accept: &str) -> Answer {
        let answer = get(self.node(), port, path, accept);
        answer.unwrap_or_else(|| panic!("{}: nobody answers on port {port} to {path}", self.name))
    }
}

impl Pair {
    pub(crate) fn start(kit: Kit) -> Pair {
        let plane = ControlPlane::start(&kit, &Namespace::new().unwrap(), &Options::default()).unwrap();
        WEB.create(plane.api());
        WEB.serve_by(plane.api(), &["a"]);
        let (ours, theirs) = (Side::open(&plane, OURS), Side::open(&plane, UPSTREAM));
        let kubeconfig = plane.kubeconfig(User::PROXY).unwrap();
        let mut flags = SettingsVariant::ClusterCidr.flags();
        flags.extend(GIVEN.map(str::to_owned));
        let log = plane.folder().join("ours.log");
        let agent = ours.site.agent(&kit, &log, &kubeconfig, OURS, &flags);
        let upstream =
            Upstream::start(&kit.upstream, theirs.node(), &kubeconfig, UPSTREAM, &flags, plane.folder())
                .unwrap();
        let pair = Pair { _agent: agent, _upstream: upstream, ours, theirs, plane, kit, kubeconfig };
        pair.make_a_change();
        pair
    }

    pub(crate) fn api(&self) -> &Api {
        self.plane.api()
    }

    /// A start says little: many metrics come with the first change, and with probes.
    fn make_a_change(&self) {
        // Nothing is compared with the kube-proxy of an old release.
        let theirs = release::is_reference().is_ok().then_some(&self.theirs);
        for side in std::iter::once(&self.ours).chain(theirs) {
            for (port, path) in [(PROBES, "/healthz"), (PROBES, "/livez"), (PAGES, "/healthz")] {
                assert_eq!(side.get(port, path).status, 200, "{} {path}", side.name);
            }
            let synced = || {
                self.touch_endpoints();
                let page = side.get(PAGES, "/metrics").body;
                NEED_A_CHANGE.iter().all(|name| page.contains(&format!("{name}_count{{ip_family=\"IPv6\"}}")))
            };
            assert!(
                wait_until(SOON, synced),
                "{} does not sync\n{}",
                side.name,
                side.get(PAGES, "/metrics").body
            );
        }
    }

    /// Say of the endpoints that something changed them just now, by the apiserver's clock.
    fn touch_endpoints(&self) {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let now = self.api().create("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).unwrap();
        let annotation =
            json!({"endpoints.kubernetes.io/last-change-trigger-time": now["metadata"]["creationTimestamp"]});
        for family in Family::BOTH {
            let part = json!({"metadata": {"annotations": annotation}});
            self.api().patch(&WEB.slice_path("1", family), &part).unwrap();
        }
    }

    pub(crate) fn set_taints(&self, taints: &Value) {
        for side in [&self.ours, &self.theirs] {
            let part = json!({"spec": {"taints": taints}});
            self.api().patch(&format!("{}/{}", paths::NODES, side.name), &part).unwrap();
        }
    }

    /// What the two print, ours first.
    pub(crate) fn outputs(&self, arguments: &[String]) -> [String; 2] {
        [&self.kit.kube_proxy, &self.kit.upstream].map(|binary| {
            let output = Command::new(binary).args(arguments).output().unwrap();
            assert!(
                output.status.success(),
                "{} {arguments:?}: {}",
                binary.display(),
                String::from_utf8_lossy(&output.stderr)
            );
            String::from_utf8(output.stdout).unwrap()
        })
    }
}
