//! The agent as a child process, and what its log tells.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use kernel::process::{Signal, die_with_parent};
use sandbox::{Namespace, address};

use super::super::leftovers::Leftovers;
use super::DemoError;
use super::cast::NODE_NAME;
use super::commit::Commit;
use super::folder::Folder;

const READY: &str = "\"All rules are in place\"";
const SYNCED: &str = "\"Synced\"";
/// A start takes some milliseconds; a machine under load more.
const START: Duration = Duration::from_secs(10);

pub(super) struct Agent {
    log: Receiver<(Instant, String)>,
    last: String,
}

impl Agent {
    /// Start it in the node's namespace and wait until all rules are in place; gives how long that took.
    pub(super) fn start(
        kube_proxy: &Path,
        node: &Namespace,
        folder: &Folder,
        leftovers: &Leftovers,
    ) -> Result<(Agent, Duration), DemoError> {
        let system = |source| DemoError::System { what: "start the agent", source };
        let mut command = command(kube_proxy, folder);
        node.enter(&mut command)?;
        let copy = File::create(folder.file("agent.log")).map_err(system)?;
        let started = Instant::now();
        let stderr = leftovers.start_agent(&mut command, |child| child.stderr.take()).map_err(system)?;
        let (sender, log) = channel();
        if let Some(stderr) = stderr {
            let follow = move || follow(stderr, copy, &sender);
            std::thread::Builder::new().name("agent log".into()).spawn(follow).map_err(system)?;
        }
        let mut agent = Agent { log, last: String::new() };
        let ready = agent.wait(started + START, |line| line.contains(READY));
        match ready {
            Some((at, _)) => Ok((agent, at.duration_since(started))),
            None if leftovers.agent_ended().is_some() => Err(agent.failure("did not start")),
            None => Err(agent.failure("was not ready in time")),
        }
    }

    fn failure(&self, what: &'static str) -> DemoError {
        DemoError::Agent { what, said: self.last.clone() }
    }

    /// The next line that fits. Lines in between are passed over.
    fn wait(&mut self, until: Instant, fits: impl Fn(&str) -> bool) -> Option<(Instant, String)> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.log.recv_timeout(left) {
                Ok((at, line)) if fits(&line) => return Some((at, line)),
                Ok((_, line)) => self.last = line,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Pass over what was logged so far.
    pub(super) fn skip(&mut self) {
        while self.log.try_recv().is_ok() {}
    }

    /// The next sync that committed something: one line a family, IPv6 last.
    pub(super) fn next_commit(&mut self) -> Option<Commit> {
        let until = Instant::now() + Duration::from_secs(2);
        loop {
            let mut commit = Commit::default();
            let mut family = String::new();
            while family != "IPv6" {
                let (_, line) = self.wait(until, |line| line.contains(SYNCED))?;
                add(&mut commit, &line);
                family = field(&line, "family").unwrap_or_default().to_owned();
            }
            if commit.bytes > 0 {
                return Some(commit);
            }
        }
    }
}

/// Add what a line says of one family.
fn add(commit: &mut Commit, line: &str) {
    let number = |name| field(line, name).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
    let size = |name| usize::try_from(number(name)).unwrap_or(usize::MAX);
    commit.services = commit.services.max(size("services"));
    commit.bytes += size("bytes");
    // Each line counts from the beginning of the whole sync.
    commit.took = commit.took.max(Duration::from_micros(number("micros")));
    commit.full |= field(line, "full") == Some("true");
}

/// The value of `name=value` or `name="value"` in a log line.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let mut words = line.split_whitespace();
    words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).map(|value| value.trim_matches('"'))
}

fn command(kube_proxy: &Path, folder: &Folder) -> Command {
    let mut command = Command::new(kube_proxy);
    command
        .arg("--manifests")
        .arg(folder.manifests())
        .arg("--hostname-override")
        .arg(NODE_NAME)
        .arg("--cluster-cidr")
        .arg(format!("{},{}", address::CLUSTER_V4, address::CLUSTER_V6))
        // Of the machine, which is none of the demonstration's business.
        .args(["--conntrack-max-per-core", "0", "--oom-score-adj", "0"])
        .args(["-v", "4"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // Ctrl-C at the terminal is for us alone; we stop the agent ourselves.
        .process_group(0);
    die_with_parent(&mut command, Signal::Kill);
    command
}

/// Lines with the moment of their arrival; a copy goes to a file for those in the shell.
fn follow(stderr: ChildStderr, mut copy: File, lines: &Sender<(Instant, String)>) {
    for line in BufReader::new(stderr).lines() {
        let Ok(line) = line else { return };
        let now = Instant::now();
        // Without its copy the log is still followed; the reader of the channel may be gone, too.
        let _ = writeln!(copy, "{line}");
        let _ = lines.send((now, line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_read_from_the_log() {
        let line = |family: &str, micros: u32| {
            format!(
                "I1115 23:59:59.123456    1234 sync.rs:42] \"Synced\" family=\"{family}\" full=false \
                 services=1 bytes=300 micros={micros}"
            )
        };
        let mut commit = Commit::default();
        add(&mut commit, &line("IPv4", 70));
        add(&mut commit, &line("IPv6", 110));
        assert_eq!(commit, Commit { services: 1, bytes: 600, took: Duration::from_micros(110), full: false });
        assert_eq!(field(&line("IPv6", 1), "family"), Some("IPv6"));
    }
}
