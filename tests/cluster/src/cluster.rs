//! The whole: network, control plane, nodes, names and load balancers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use conformance_support::{Api, ControlPlane, Daemon, Options, Scratch, User};
use kernel::netns::Namespace;
use serde_json::{Value, json};
use test_support::{SOON, wait_until};

use crate::address;
use crate::balancer::Balancer;
use crate::cgroup;
use crate::images::{self, Images};
use crate::network::Network;
use crate::node::{Common, Node};
use crate::programs::Programs;
use crate::run;

/// As many as there are tokens and pod prefixes for.
const MOST_NODES: u8 = 9;
/// Images are unpacked before a node can run a pod, on a machine that may be busy.
const READY: Duration = Duration::from_secs(300);

/// What a cluster begins with.
#[derive(Clone, Debug)]
pub struct Plan {
    pub nodes: u8,
    /// In the API, nodes have addresses of these many families, IPv4 first.
    pub families: usize,
    /// Image archives of what is to be run on it.
    pub archives: Vec<PathBuf>,
    /// Seccomp profiles that the nodes have: name and file.
    pub profiles: Vec<(String, PathBuf)>,
}

/// Dropping it ends everything. Parts are dropped in this order.
#[derive(Debug)]
pub struct Cluster {
    _balancer: Balancer,
    pub nodes: Vec<Node>,
    _controllers: [Daemon; 2],
    pub plane: ControlPlane,
    network: Network,
    common: Common,
    pub images: Images,
    scratch: Scratch,
}

impl Cluster {
    /// Returns when every node is ready. There is no proxy yet, so Services do not work.
    pub fn start(programs: &Programs, plan: &Plan, say: &dyn Fn(&str)) -> Result<Cluster, String> {
        cgroup::remove_leftovers();
        let scratch = Scratch::create()?;
        let images = images::make(programs, scratch.path())?;
        say("images");
        let network = Network::create()?;
        let plane = ControlPlane::start(&programs.kit, &network.control_plane, &options())?;
        let controllers = controllers(programs, &plane, &network.control_plane, scratch.path())?;
        let balancer = Balancer::start(plane.api_as(User::ADMIN)?, &network.control_plane)?;
        say("control plane");
        let common = Common {
            programs: programs.clone(),
            images: std::iter::once(images.archive.clone()).chain(plan.archives.iter().cloned()).collect(),
            pause: images.pause.clone(),
            profiles: plan.profiles.clone(),
            families: plan.families,
        };
        let mut cluster = Cluster {
            _balancer: balancer,
            nodes: Vec::new(),
            _controllers: controllers,
            plane,
            network,
            common,
            images,
            scratch,
        };
        for number in 1..=plan.nodes {
            cluster.boot(number)?;
        }
        for number in 1..=plan.nodes {
            cluster.await_node(number)?;
        }
        say("nodes");
        let dns = include_str!("../manifests/coredns.yaml");
        cluster.apply(&dns.replace("IMAGE", &cluster.images.coredns).replace("ADDRESS", address::DNS))?;
        Ok(cluster)
    }

    pub fn api(&self) -> &Api {
        self.plane.api()
    }

    pub fn programs(&self) -> &Programs {
        &self.common.programs
    }

    /// Where the control plane is, and clients outside the cluster.
    pub fn outside(&self) -> &Namespace {
        &self.network.control_plane
    }

    /// For files that are to vanish with the cluster.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// One more node; returns when it is ready.
    pub fn join(&mut self) -> Result<u8, String> {
        let number = self.nodes.iter().map(|node| node.number).max().unwrap_or_default() + 1;
        self.boot(number)?;
        self.await_node(number)?;
        Ok(number)
    }

    /// End everything on a node, its network with all rules included, and start it again. Disks stay as they were.
    pub fn reboot(&mut self, number: u8) -> Result<(), String> {
        self.nodes.retain(|node| node.number != number);
        self.boot(number)?;
        self.await_node(number)
    }

    pub fn kubectl(&self, words: &[&str]) -> Result<String, String> {
        self.kubectl_with(words, "")
    }

    pub fn apply(&self, manifest: &str) -> Result<String, String> {
        self.kubectl_with(&["apply", "-f", "-"], manifest)
    }

    pub fn helm(&self, words: &[&str]) -> Result<String, String> {
        let mut command = self.client(&self.programs().helm)?;
        run::output(command.args(words))
    }

    /// A program that finds the cluster by its environment.
    pub fn client(&self, program: &Path) -> Result<Command, String> {
        let mut command = self.programs().command(program, self.outside())?;
        command.env("KUBECONFIG", self.plane.kubeconfig(User::ADMIN)?);
        // What they remember, they remember here.
        command.env("HOME", self.folder()).env("KUBECACHEDIR", self.folder().join("kubectl"));
        Ok(command)
    }

    fn kubectl_with(&self, words: &[&str], input: &str) -> Result<String, String> {
        let mut command = self.client(&self.programs().path("kubectl")?)?;
        run::with_input(command.args(words), input)
    }

    fn boot(&mut self, number: u8) -> Result<(), String> {
        let namespace = self.network.add_node(number)?;
        let kubeconfig = self.plane.kubeconfig(&node_user(number))?;
        let node = Node::start(&self.common, number, namespace, &kubeconfig, self.scratch.path())?;
        self.nodes.push(node);
        self.nodes.sort_by_key(|node| node.number);
        Ok(())
    }

    fn await_node(&self, number: u8) -> Result<(), String> {
        let path = format!("/api/v1/nodes/node{number}");
        let nets = address::pods(number).map(|net| net.to_string());
        let part = json!({"spec": {"podCIDR": nets[0], "podCIDRs": nets}});
        let ready = wait_until(READY, || {
            let Ok(node) = self.api().get(&path) else { return false };
            if node["spec"]["podCIDR"].is_null() {
                let _ = self.api().patch(&path, &part);
                return false;
            }
            is_ready(&node)
        });
        if ready {
            return Ok(());
        }
        let node = self.nodes.iter().find(|node| node.number == number);
        Err(format!("node{number} does not get ready\n{}", node.map(Node::complaints).unwrap_or_default()))
    }

    /// Wait until a workload of kube-system is rolled out as it is described.
    pub fn await_rollout(&self, workload: &str) -> Result<(), String> {
        let patience = format!("--timeout={}s", test_support::patient(READY).as_secs());
        self.kubectl(&["-n", "kube-system", "rollout", "status", &patience, workload]).map(drop)
    }

    /// Wait until an object of the API is as wanted.
    pub fn await_object(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value, String> {
        let mut last = Value::Null;
        let came = wait_until(SOON, || {
            last = self.api().get(path).unwrap_or_default();
            wanted(&last)
        });
        if came { Ok(last) } else { Err(format!("{path} does not become as expected: {last}")) }
    }
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|each| each["type"] == "Ready" && each["status"] == "True")
}

fn node_user(number: u8) -> String {
    format!("system:node:node{number}")
}

const CONTROLLERS: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";

fn options() -> Options {
    let at = address::CONTROL_PLANE.0;
    let nodes = (1..=MOST_NODES).map(|number| User::new(&node_user(number), &["system:nodes"]));
    let others = [User::new(CONTROLLERS, &["system:masters"]), User::new(SCHEDULER, &[])];
    let names = [&at.to_string(), address::KUBERNETES_SERVICE, "kubernetes", "kubernetes.default"];
    let flags = [
        "--bind-address=0.0.0.0",
        &format!("--advertise-address={at}"),
        "--endpoint-reconciler-type=lease",
        &format!("--service-cluster-ip-range={}", address::SERVICES),
        "--service-node-port-range=30000-32767",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        "--allow-privileged=true",
        "--kubelet-preferred-address-types=InternalIP",
        "--request-timeout=60s",
        "--etcd-compaction-interval=5m",
    ];
    Options {
        users: others.into_iter().chain(nodes).collect(),
        apiserver_flags: flags.map(str::to_owned).into(),
        address: Some(at.into()),
        names: names.map(str::to_owned).into(),
        ..Options::default()
    }
}

fn controllers(
    programs: &Programs,
    plane: &ControlPlane,
    namespace: &Namespace,
    folder: &Path,
) -> Result<[Daemon; 2], String> {
    let start = |name: &str, user: &str, more: Vec<String>| {
        let mut flags = vec![
            format!("--kubeconfig={}", plane.kubeconfig(user)?.display()),
            format!("--cert-dir={}", folder.join(name).display()),
            "--leader-elect=false".to_owned(),
        ];
        flags.extend(more);
        let mut daemon = Daemon::new(name, &programs.path(name)?, flags, namespace, folder)?;
        daemon.start(|_| true)?;
        Ok::<Daemon, String>(daemon)
    };
    let of_controllers = vec![
        format!("--root-ca-file={}", plane.authority().display()),
        format!("--service-account-private-key-file={}", plane.accounts_key().display()),
        "--use-service-account-credentials=true".to_owned(),
        "--allocate-node-cidrs=false".to_owned(),
        "--kube-api-qps=200".to_owned(),
        "--kube-api-burst=400".to_owned(),
    ];
    Ok([
        start("kube-controller-manager", CONTROLLERS, of_controllers)?,
        start("kube-scheduler", SCHEDULER, Vec::new())?,
    ])
}
