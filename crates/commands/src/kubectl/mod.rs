//! `kubectl pointsman`: the commands, asked of the agent of another node. kubectl, which is there if it calls this program,
//! finds the pods and runs the command in the agent's own: whatever lets it do that (contexts, plugins, proxies) works here.

mod line;
mod pods;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use serde_json::Value;

use crate::{FAILED, GOOD, Outcome, bundle, complain, print};
use line::{Line, Pod, Sender};
use pods::Agent;

pub(super) const USAGE: &str = "\
Ask the kube-proxy of a node, through the apiserver.

Usage:
  kubectl pointsman explain ADDRESS:PORT --from pod/NAMESPACE/NAME
  kubectl pointsman explain service NAMESPACE/NAME[:PORT] --node NODE
  kubectl pointsman services -A --problems --node NODE
  kubectl pointsman COMMAND --help         about one of bundle, check, diff, explain, services, trace

Flags, beside those of the command:
  --node NODE                      the node whose agent is asked; else the one of the pod that --from names; else the
                                   only one there is
  --from pod/[NAMESPACE/]NAME      a pod as the client, instead of its address
  -n, --namespace NAMESPACE        of pods and services that are named without one [default]
  --proxy-namespace NAMESPACE      where the pods of kube-proxy are [kube-system]
  --selector LABELS                what they are found by [k8s-app=kube-proxy]
  --kubeconfig, --context, --as and others as kubectl takes them

Exit code: that of the command; 1 if the agent cannot be reached.
";

/// For commands that go on until they are ended.
const ENDS_WITH_INPUT: &str = "--ends-with-input";

/// Do what the command line of the plugin asks.
pub(super) fn run(words: Vec<String>) -> Outcome {
    let mut line = Line::read(words)?;
    match line.command.as_str() {
        "" | "help" => {
            print(USAGE)?;
            return Ok(GOOD);
        }
        command if line.wants_help || command == "check" => return super::run_here(command, line.remote),
        _ => {}
    }
    if !super::is_command(&line.command) {
        return Err(format!("there is no command {:?}; see kubectl pointsman --help", line.command));
    }
    let kubectl = Kubectl { global: std::mem::take(&mut line.kubectl) };
    let mut node = line.node.take();
    if let Some(Sender::Pod(pod)) = line.from.take() {
        let found = kubectl.pod(&pod)?;
        line.remote.extend(["--from".to_owned(), pods::address(&found, &pod, line.is_ipv6())?]);
        node = node.map_or_else(|| pods::node(&found, &pod).map(Some), |node| Ok(Some(node)))?;
    }
    let agent = kubectl.agent(&line.proxies, node.as_deref())?;
    match line.command.as_str() {
        "bundle" => kubectl.bundle(&agent, line),
        command => {
            let lasts = command == "trace" || line.remote.iter().any(|word| word.starts_with("--watch"));
            line.remote.extend(lasts.then(|| ENDS_WITH_INPUT.to_owned()));
            kubectl.execute(&agent, command, &line.remote, Stdio::inherit()).map(code)
        }
    }
}

/// As kubectl passes it on; a signal is a failure.
fn code(status: ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED)
}

/// How kubectl is called.
struct Kubectl {
    /// Flags that every call gets.
    global: Vec<String>,
}

impl Kubectl {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command.args(&self.global).args(words);
        command
    }

    fn get(&self, words: &[&str]) -> Result<Value, String> {
        let output = self.command(words).stdin(Stdio::null()).output().map_err(unavailable)?;
        if !output.status.success() {
            let problem = String::from_utf8_lossy(&output.stderr);
            // The lines before are kubectl's log.
            let last = problem.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no reason given");
            return Err(format!(
                "kubectl {}: {last}",
                words.iter().take(2).copied().collect::<Vec<_>>().join(" ")
            ));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("kubectl gave an answer that cannot be read: {error}"))
    }

    fn pod(&self, pod: &Pod) -> Result<Value, String> {
        self.get(&["get", "pod", &pod.name, "--namespace", &pod.namespace, "--output", "json"])
    }

    /// The pod of kube-proxy on this node.
    fn agent(&self, proxies: &line::Proxies, node: Option<&str>) -> Result<Agent, String> {
        let mut words =
            vec!["get", "pods", "--namespace", &proxies.namespace, "--selector", &proxies.selector];
        let of_node = node.map(|node| format!("spec.nodeName={node}"));
        if let Some(of_node) = &of_node {
            words.extend(["--field-selector", of_node]);
        }
        words.extend(["--output", "json"]);
        pods::agent(&self.get(&words)?, proxies, node)
    }

    fn execute(
        &self,
        agent: &Agent,
        command: &str,
        words: &[String],
        out: Stdio,
    ) -> Result<ExitStatus, String> {
        let place = ["exec", "--namespace", &agent.namespace, &agent.pod, "--container", &agent.container];
        let mut call = self.command(&place);
        // Its input ends with this process, however that ends, and with the connection. Nothing else tells a program in a
        // container that nobody waits for it any more.
        let lasts = words.iter().any(|word| word == ENDS_WITH_INPUT);
        call.args(lasts.then_some("--stdin")).arg("--");
        call.arg(&agent.program).arg(command).args(words).args(&agent.flags).stdout(out);
        call.stdin(if lasts { Stdio::piped() } else { Stdio::null() });
        let mut call = call.spawn().map_err(unavailable)?;
        let _input = call.stdin.take();
        call.wait().map_err(unavailable)
    }

    /// The archive is made there and written here.
    fn bundle(&self, agent: &Agent, mut line: Line) -> Outcome {
        let is_forced = line.take_remote_flag("--force");
        let given = match line.remote.as_slice() {
            [] => None,
            [file] if file == "-" || !file.starts_with('-') => Some(file.clone()),
            [other, ..] => return Err(format!("bundle: {other:?} is not expected; see --help")),
        };
        let words = ["-".to_owned()];
        if given.as_deref() == Some("-") {
            return self.execute(agent, "bundle", &words, Stdio::inherit()).map(code);
        }
        let path = given.map_or_else(|| PathBuf::from(bundle::usual_name(&agent.node)), PathBuf::from);
        let file = bundle::open(&path, is_forced)?;
        let ended = self.execute(agent, "bundle", &words, Stdio::from(file)).map(code);
        match ended {
            Ok(GOOD) => {
                print(&format!("{}\n", path.display()))?;
            }
            _ => remove(&path),
        }
        ended
    }
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        complain(&format!("bundle: cannot remove {}: {error}", path.display()));
    }
}

fn unavailable(error: std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "kubectl is not on the PATH".to_owned(),
        _ => format!("cannot run kubectl: {error}"),
    }
}
