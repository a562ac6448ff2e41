//! The real `kube-proxy`, running in a namespace of its own.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use kernel::process::{Signal, die_with_parent, send_signal};
use sandbox::Namespace;

use crate::{ManifestFolder, SOON, patient, wait_until};

const HEALTHZ: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10256);
const METRICS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10249);

/// What all namespaces share cannot be changed from inside one, nor an ordinary user his score; asked to, the agent
/// would complain each time.
pub const LEAVE_ALONE: [&str; 2] = ["--conntrack-max-per-core=0", "--oom-score-adj=0"];

/// A running agent; dropping it kills the process. The rules stay in the namespace, whose end is theirs.
#[derive(Debug)]
pub struct NodeAgent {
    child: Child,
    namespace: Namespace,
    start: Start,
}

/// Where an agent gets its objects from, and where it writes its log.
#[derive(Clone, Debug)]
pub struct Source {
    pub flag: String,
    pub log: PathBuf,
}

impl From<&ManifestFolder> for Source {
    fn from(folder: &ManifestFolder) -> Source {
        let path = folder.path();
        // Hidden from the source of manifests, and removed together with them.
        let flag = format!("--manifests={}", path.display());
        Source { flag, log: path.join(".kube-proxy.log") }
    }
}

/// All that is needed to start it again.
#[derive(Clone, Debug)]
struct Start {
    binary: PathBuf,
    flags: Vec<String>,
    log: PathBuf,
}

impl NodeAgent {
    /// Start the agent in `namespace` as node `name`, and wait until all rules are in place. The thread that
    /// calls must live as long as the agent.
    pub fn start(
        binary: &Path,
        namespace: &Namespace,
        source: impl Into<Source>,
        name: &str,
        flags: &[String],
    ) -> Result<NodeAgent, String> {
        NodeAgent::start_by(&[], binary, namespace, source, name, flags)
    }

    /// [`start`](NodeAgent::start) through a command that executes what follows it.
    pub fn start_by(
        launcher: &[String],
        binary: &Path,
        namespace: &Namespace,
        source: impl Into<Source>,
        name: &str,
        flags: &[String],
    ) -> Result<NodeAgent, String> {
        let Source { flag, log } = source.into();
        let mut all = vec![flag, format!("--hostname-override={name}"), "-v=4".to_owned()];
        if !flags.iter().any(|flag| flag.starts_with("--config")) {
            all.extend(LEAVE_ALONE.map(str::to_owned));
        }
        all.extend_from_slice(flags);
        let mut words = launcher.to_vec();
        words.push(binary.display().to_string());
        words.append(&mut all);
        let binary = PathBuf::from(words.remove(0));
        let start = Start { binary, flags: words, log };
        let namespace = namespace.try_clone().map_err(|e| e.to_string())?;
        let child = start.spawn(&namespace)?;
        let mut agent = NodeAgent { child, namespace, start };
        agent.await_ready()?;
        Ok(agent)
    }

    /// What it wrote to stderr in all its lives.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.start.log).unwrap_or_default()
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// The status of `GET path` at its probe server; `None` if nothing answers.
    pub fn probe(&self, path: &str) -> Option<u16> {
        let text = self.namespace.try_run(|| get(HEALTHZ, path)).ok()??;
        text.split_whitespace().nth(1)?.parse().ok()
    }

    /// The page `/metrics`; `None` if nothing answers.
    pub fn metrics(&self) -> Option<String> {
        self.page("/metrics")
    }

    /// A page beside the metrics; `None` if nothing answers.
    pub fn page(&self, path: &str) -> Option<String> {
        let text = self.namespace.try_run(|| get(METRICS, path)).ok()??;
        text.split_once("\r\n\r\n").map(|(_, page)| page.to_owned())
    }

    /// SIGTERM, and wait for the end.
    pub fn stop(&mut self) -> Result<ExitStatus, String> {
        send_signal(self.child.id(), Signal::Terminate).map_err(|e| format!("SIGTERM to kube-proxy: {e}"))?;
        let mut status = None;
        let ended = wait_until(SOON, || {
            status = self.child.try_wait().ok().flatten();
            status.is_some()
        });
        match status {
            Some(status) if ended => Ok(status),
            _ => Err(format!("kube-proxy did not end on SIGTERM; its log:\n{}", self.log())),
        }
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        // Both fail only if it has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Start it again, after [`stop`](NodeAgent::stop) or [`kill`](NodeAgent::kill), and wait until it is ready.
    pub fn restart(&mut self) -> Result<(), String> {
        self.launch()?;
        self.await_ready()
    }

    /// The first half of [`restart`](NodeAgent::restart): it runs, and may have done nothing yet.
    pub fn launch(&mut self) -> Result<(), String> {
        self.child = self.start.spawn(&self.namespace)?;
        Ok(())
    }

    /// Wait until all rules are in place.
    pub fn await_ready(&mut self) -> Result<(), String> {
        let mut ended = None;
        let ready = wait_until(SOON, || {
            ended = self.child.try_wait().ok().flatten();
            ended.is_some() || self.probe("/readyz") == Some(200)
        });
        match ended {
            Some(status) => Err(format!("kube-proxy ended ({status}); its log:\n{}", self.log())),
            None if !ready => Err(format!("kube-proxy does not get ready; its log:\n{}", self.log())),
            None => Ok(()),
        }
    }
}

impl Start {
    fn spawn(&self, namespace: &Namespace) -> Result<Child, String> {
        let log = fs::OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.map_err(|e| format!("opening {}: {e}", self.log.display()))?;
        let mut command = Command::new(&self.binary);
        command.args(&self.flags).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // The lock of iptables is one for all namespaces of a machine; here they must not wait for each other.
        command.env("XTABLES_LOCKFILE", lock_beside(&self.log));
        die_with_parent(&mut command, Signal::Kill);
        namespace.enter(&mut command).map_err(|e| e.to_string())?;
        command.spawn().map_err(|e| format!("starting {}: {e}", self.binary.display()))
    }
}

/// The lock of iptables for an agent with this log.
pub fn lock_beside(log: &Path) -> PathBuf {
    log.with_file_name(".xtables.lock")
}

impl Drop for NodeAgent {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The whole answer to `GET path`, in the calling thread's namespace.
pub fn get(server: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&server, patient(SOON)).ok()?;
    stream.set_read_timeout(Some(patient(SOON))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: node\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
