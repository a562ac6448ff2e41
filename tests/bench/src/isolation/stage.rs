//! A node with the real agent on it, an apiserver of our own, and an ordinary service whose endpoint changes.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandbox::{Sandbox, SandboxSpec, Server, probe};
use serde_json::json;

use super::apiserver::{ADDRESS, Apiserver, Verb};
use super::objects::{self, Slice};
use crate::scratch::Scratch;
use crate::{Failure, scrape, world};

/// Others in the cluster.
const SURROUNDINGS: u32 = 1_000;
const CALLER: &str = "caller";
/// The two pods that answer in turn.
const SERVERS: [&str; 2] = ["a", "b"];
const POD_PORT: u16 = 8080;
/// Between two questions, and for one; failures are recognised long before.
const STEP: Duration = Duration::from_millis(1);
const ANSWER: Duration = Duration::from_millis(50);
const START: Duration = Duration::from_secs(60);
/// Of the changes that wait, these may be of the ordinary service.
const ORDINARY: f64 = 3.0;
const PENDING: [&str; 2] = [
    "kubeproxy_sync_proxy_rules_endpoint_changes_pending ",
    "kubeproxy_sync_proxy_rules_service_changes_pending ",
];

/// An ordinary service; the apiserver and the caller know them by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ordinary {
    /// Its endpoint changes all the time.
    Canary,
    /// Comes and goes right behind what the tenant does, so that it shows when that was read.
    Beacon,
}

/// Parts are dropped in this order.
pub(crate) struct Stage {
    agent: Child,
    log: PathBuf,
    pub(crate) server: Apiserver,
    _servers: Vec<Server>,
    sandbox: Sandbox,
    _scratch: Scratch,
}

impl Stage {
    pub(crate) fn set(kube_proxy: &Path) -> Result<Stage, Failure> {
        let pods = [CALLER].into_iter().chain(SERVERS).map(str::to_owned).collect();
        let sandbox = Sandbox::new(&SandboxSpec { local_pods: pods, remote_pods: Vec::new() })?;
        for service in [Ordinary::Canary, Ordinary::Beacon] {
            // Without rules its packets go out to the client, who refuses them at once.
            sandbox.add_client_address(service.ip())?;
        }
        let mut servers = Vec::new();
        for name in SERVERS {
            let pod = sandbox.pod(name)?;
            servers.push(Server::tcp(&pod.namespace, name, SocketAddr::new(pod.v4.into(), POD_PORT))?);
        }
        let server = Apiserver::start(&sandbox.node)?;
        server.apply(Verb::Put, &objects::surroundings(SURROUNDINGS))?;
        let scratch = Scratch::new("isolation")?;
        let log = scratch.path().join("log");
        let agent = start(kube_proxy, &sandbox, &scratch, &log)?;
        let mut stage = Stage { agent, log, server, _servers: servers, sandbox, _scratch: scratch };
        stage.put(Ordinary::Canary, 0)?;
        let deadline = Instant::now() + START;
        while !stage.is_answered_by(Ordinary::Canary, Stage::server_of(0)) {
            stage.check()?;
            if Instant::now() > deadline {
                return Err(stage.complaint("does not steer traffic"));
            }
        }
        Ok(stage)
    }

    /// Let a pod answer for it, by turns.
    pub(crate) fn put(&self, service: Ordinary, turn: u32) -> Result<(), Failure> {
        let pod = self.sandbox.pod(Stage::server_of(turn))?.v4.into();
        let (service, slice) = (service.object(), service.slice(pod));
        // The service itself does not change; sent again it would only be read again.
        match turn {
            0 => self.server.apply(Verb::Put, &[service, slice]),
            _ => self.server.apply(Verb::Put, &[slice]),
        }
    }

    pub(crate) fn remove(&self, service: Ordinary) -> Result<(), Failure> {
        let nobody = Ipv4Addr::UNSPECIFIED.into();
        self.server.apply(Verb::Delete, &[service.object(), service.slice(nobody)])
    }

    pub(crate) fn server_of(turn: u32) -> &'static str {
        if turn.is_multiple_of(2) { "a" } else { "b" }
    }

    /// Ask until this pod answers for it; `None` if it never does in time.
    pub(crate) fn await_answer(&self, service: Ordinary, by: &str, patience: Duration) -> Option<Instant> {
        let deadline = Instant::now() + patience;
        loop {
            if self.is_answered_by(service, by) {
                return Some(Instant::now());
            }
            if Instant::now() > deadline {
                return None;
            }
            std::thread::sleep(STEP);
        }
    }

    pub(crate) fn is_answered_by(&self, service: Ordinary, by: &str) -> bool {
        let Ok(caller) = self.sandbox.pod(CALLER) else { return false };
        let to = SocketAddr::new(service.ip(), 80);
        probe::tcp(&caller.namespace, None, to, ANSWER).by() == Some(by)
    }

    /// Whether the agent has written all it knows of, but for what changes all the time.
    pub(crate) fn is_settled(&self) -> Result<bool, Failure> {
        let (_, page) = self.sandbox.node.try_run(|| scrape::get(scrape::METRICS, "/metrics"))??;
        let value = |name: &&str| page.lines().find_map(|line| line.strip_prefix(*name)?.parse::<f64>().ok());
        let pending: Vec<f64> = PENDING.iter().filter_map(value).collect();
        Ok(pending.len() == PENDING.len() && pending.iter().sum::<f64>() <= ORDINARY)
    }

    /// An error if the agent has ended.
    pub(crate) fn check(&mut self) -> Result<(), Failure> {
        match self.agent.try_wait()? {
            Some(status) => Err(self.complaint(&format!("ended with {status}"))),
            None => Ok(()),
        }
    }

    fn complaint(&self, what: &str) -> Failure {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines.get(lines.len().saturating_sub(20)..).unwrap_or_default();
        format!("kube-proxy {what}; the end of its log:\n{}", last.join("\n")).into()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // It has ended already if it cannot be killed.
        let _ = self.agent.kill();
        let _ = self.agent.wait();
    }
}

impl Ordinary {
    fn name(self) -> &'static str {
        match self {
            Ordinary::Canary => "canary",
            Ordinary::Beacon => "beacon",
        }
    }

    fn ip(self) -> IpAddr {
        let last = match self {
            Ordinary::Canary => 1,
            Ordinary::Beacon => 2,
        };
        Ipv4Addr::new(10, 96, 200, last).into()
    }

    fn object(self) -> serde_json::Value {
        objects::service("default", self.name(), self.ip())
    }

    fn slice(self, pod: IpAddr) -> serde_json::Value {
        let ports = vec![("http".to_owned(), POD_PORT)];
        objects::slice(&Slice {
            namespace: "default",
            service: self.name(),
            suffix: 0,
            ports,
            pods: vec![pod],
        })
    }
}

/// With default settings, but for what belongs to the whole machine.
fn start(kube_proxy: &Path, sandbox: &Sandbox, scratch: &Scratch, log: &Path) -> Result<Child, Failure> {
    let kubeconfig = scratch.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": format!("http://{ADDRESS}")}}],
        "users": [{"name": "bench", "user": {"token": "bench"}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
    });
    std::fs::write(&kubeconfig, config.to_string())?;
    let mut command = Command::new(kube_proxy);
    command.arg("--kubeconfig").arg(&kubeconfig).args(["--proxy-mode", "nftables"]);
    command.args(["--hostname-override", world::NODE, "--conntrack-max-per-core=0", "--oom-score-adj=0"]);
    command.arg(format!("--cluster-cidr={}", sandbox::address::CLUSTER_V4));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(log)?);
    sandbox.node.enter(&mut command)?;
    command.spawn().map_err(|error| format!("cannot start {}: {error}", kube_proxy.display()).into())
}
