//! SIGTERM is answered at once, whatever the agent is busy with or waits for.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kernel::process::{Signal, die_with_parent, send_signal};
use sandbox::Namespace;
use serde_json::{Value, json};
use test_support::{Case, LEAVE_ALONE, ManifestFolder, manifest, patient, wait_until};

use super::case;
use super::churn::crowd_member;
use super::nft;
use super::stage::{BINARY, SOON, list};

const CROWD: u16 = 8000;
/// Less than any of its own patience: with a server that does not answer a connection that is 10 s.
const LIMIT: Duration = Duration::from_secs(8);
const APISERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 6443);

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("SIGTERM while a large state is synced", while_syncing),
        case("SIGTERM while large manifests are read", while_reading),
        case("SIGTERM while the apiserver cannot be reached", while_connecting),
        case("SIGTERM while the apiserver says nothing", while_unanswered),
        case("SIGTERM while an exec plugin hangs", while_authenticating),
        case("SIGTERM while the Node is awaited", while_awaiting_node),
    ]
}

/// An agent that need not get ready.
struct Started {
    child: Child,
    namespace: Namespace,
    folder: ManifestFolder,
}

impl Started {
    fn new(namespace: Namespace, folder: ManifestFolder, flags: &[String]) -> Started {
        let log = fs::File::create(folder.path().join(".log")).unwrap();
        let mut command = Command::new(BINARY.get().unwrap());
        command.args(flags).args(["-v=4", "--hostname-override=node-1"]);
        command.args(LEAVE_ALONE);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        die_with_parent(&mut command, Signal::Kill);
        namespace.enter(&mut command).unwrap();
        let child = command.spawn().unwrap();
        Started { child, namespace, folder }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join(".log")).unwrap()
    }

    fn await_that(&self, what: &str, mut is_so: impl FnMut(&Started) -> bool) {
        assert!(wait_until(SOON, || is_so(self)), "never: {what}\n{}", self.log());
    }

    /// Ticks of processor time that a thread of this name has used.
    fn ticks(&self, thread: &str) -> u64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten();
        let stats = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
        let own = stats.filter(|stat| stat.contains(&format!("({thread})")));
        let spent = |stat: String| -> Option<u64> {
            let after = stat.rsplit_once(") ")?.1.to_owned();
            let fields: Vec<&str> = after.split(' ').collect();
            Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
        };
        own.filter_map(spent).sum()
    }

    /// The log in the end.
    fn end(mut self) -> String {
        let asked = Instant::now();
        send_signal(self.child.id(), Signal::Terminate).unwrap();
        let mut status = None;
        wait_until(SOON, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let took = asked.elapsed();
        println!("ended after {took:?}");
        assert!(status.is_some_and(|status| status.success()), "{status:?} after {took:?}\n{}", self.log());
        assert!(took < patient(LIMIT), "{took:?}\n{}", self.log());
        self.log()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // Both fail only if it has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn large() -> Started {
    let folder = ManifestFolder::create();
    for first in (0..CROWD).step_by(500) {
        let items = (first..first + 500).flat_map(|number| crowd_member(number, 80, number % 200, 5));
        folder.put(&format!("crowd-{first:05}"), &list(items));
    }
    let flag = format!("--manifests={}", folder.path().display());
    Started::new(Namespace::new().unwrap(), folder, &[flag])
}

fn while_syncing() {
    let agent = large();
    agent.await_that("the sync thread works", |agent| agent.ticks("sync") >= 10);
    assert!(!agent.log().contains("All rules are in place"), "too late to disturb it");
    let log = agent.end();
    assert!(!log.contains("All rules are in place"), "it worked to the end\n{log}");
}

fn while_reading() {
    let agent = large();
    agent.await_that("the manifests are read", |agent| agent.ticks("manifests") >= 10);
    let log = agent.end();
    assert!(!log.contains("All rules are in place"), "it worked to the end\n{log}");
}

/// With a kubeconfig for a server on the loopback of the namespace.
fn with_apiserver(namespace: Namespace, user: &Value) -> Started {
    let folder = ManifestFolder::create();
    let file = folder.path().join("kubeconfig");
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{APISERVER}")}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    fs::write(&file, text.to_string()).unwrap();
    let flag = format!("--kubeconfig={}", file.display());
    let agent = Started::new(namespace, folder, &[flag]);
    agent.await_that("it started", |agent| agent.log().contains("\"Starting\""));
    agent
}

/// A packet that vanishes, not a port that refuses.
fn while_connecting() {
    let namespace = Namespace::new().unwrap();
    nft::load(
        &namespace,
        "table ip hole { chain in { type filter hook input priority 0; tcp dport 6443 counter drop; }\n}\n",
    );
    let agent = with_apiserver(namespace, &json!({}));
    agent.await_that("it connects", |agent| {
        let counted = nft::run(&agent.namespace, &["list", "table", "ip", "hole"]).unwrap();
        !counted.contains("packets 0 ")
    });
    agent.end();
}

fn while_unanswered() {
    let namespace = Namespace::new().unwrap();
    let listener = namespace.run(|| TcpListener::bind(APISERVER)).unwrap();
    let agent = with_apiserver(namespace, &json!({}));
    let (_held, _) = listener.accept().unwrap();
    agent.end();
}

fn while_authenticating() {
    let plugin = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sleep", "args": ["600"], "interactiveMode": "Never",
    }});
    let agent = with_apiserver(Namespace::new().unwrap(), &plugin);
    let plugins = |agent: &Started| -> Vec<u32> {
        let tasks = fs::read_dir(format!("/proc/{}/task", agent.child.id())).unwrap().flatten();
        let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        lists
            .flat_map(|list| list.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<_>>())
            .collect()
    };
    agent.await_that("the plugin runs", |agent| !plugins(agent).is_empty());
    let running = plugins(&agent);
    agent.end();
    // Fails if the agent has ended them.
    running.into_iter().for_each(|plugin| drop(send_signal(plugin, Signal::Kill)));
}

/// Its pod CIDRs decide what is local, so nothing is programmed before it is there.
fn while_awaiting_node() {
    let folder = ManifestFolder::create();
    folder.put("other", &manifest::node("node-2", "zone-1", &[]));
    let flags = [format!("--manifests={}", folder.path().display()), "--detect-local-mode=NodeCIDR".into()];
    let agent = Started::new(Namespace::new().unwrap(), folder, &flags);
    agent.await_that("it waits", |agent| agent.log().contains("Nothing is programmed yet"));
    assert!(!agent.log().contains("All rules are in place"), "{}", agent.log());
    agent.end();
}
