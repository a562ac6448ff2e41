//! A shell in the client's namespace, with a command for every other one.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::Command;

use kernel::process::{Signal, die_with_parent};
use sandbox::Namespace;

use super::super::leftovers::Leftovers;
use super::DemoError;
use super::cast::{WEB, WEB_BALANCER, WEB_NODE_PORT};
use super::screen::{Screen, Tone};
use super::stage::Stage;
use super::tour;

/// Which shell, because functions have names with a hyphen only in the first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shell {
    Bash,
    Posix,
}

pub(super) fn play(stage: &Stage, screen: &Screen, leftovers: &Leftovers) -> Result<(), DemoError> {
    tour::open(stage, screen);
    explain(stage, screen);
    let kind = if on_path("bash") { Shell::Bash } else { Shell::Posix };
    let commands = stage.folder.file("shell-commands");
    let written = std::fs::write(&commands, commands_text(stage, kind));
    written.map_err(|source| DemoError::File { path: commands.clone(), source })?;
    let mut shell = shell(kind, &commands);
    shell.env("MANIFESTS", stage.folder.manifests()).env("AGENT_LOG", stage.folder.file("agent.log"));
    stage.sandbox.client.enter(&mut shell)?;
    die_with_parent(&mut shell, Signal::Hangup);
    leftovers.set_in_shell(true);
    // Its exit code is that of the last thing the user tried: none of our business.
    let ended = shell.status().map_err(|source| DemoError::System { what: "start a shell", source });
    leftovers.set_in_shell(false);
    ended.map(drop)
}

fn explain(stage: &Stage, screen: &Screen) {
    let hint = |command: String, what: &str| {
        screen.line(&format!(
            "  {:<48} {}",
            screen.paint(Tone::Bold, &command),
            screen.paint(Tone::Dim, what)
        ));
    };
    let names: Vec<String> = places(stage).into_iter().map(|(name, _)| name).collect();
    screen.line(&format!(
        "\nYou are in the client's namespace. Run a command elsewhere: {}\n",
        names.join(", ")
    ));
    hint(format!("curl {}", WEB_BALANCER.ip()), "from outside, by the load balancer's address");
    hint(format!("curl {WEB_NODE_PORT}"), "by the node port");
    hint(format!("pod-frontend curl {}", WEB.ip()), "from a pod, by the cluster IP");
    hint("node nft list table ip kube-proxy".into(), "the rules");
    hint("node nft delete table ip kube-proxy".into(), "try it: they come back");
    hint("ls $MANIFESTS".into(), "edit one, and the rules follow");
    hint("tail $AGENT_LOG".into(), "what the agent says");
    hint("exit".into(), "ends everything; nothing is left behind");
    screen.line("");
}

/// Every namespace by the name of its command.
fn places(stage: &Stage) -> Vec<(String, &Namespace)> {
    let sandbox = &stage.sandbox;
    let mut places = vec![
        ("node".to_owned(), &sandbox.node),
        ("other-node".to_owned(), &sandbox.remote),
        ("client".to_owned(), &sandbox.client),
    ];
    places.extend(sandbox.pods().iter().map(|pod| (format!("pod-{}", pod.name), &pod.namespace)));
    places
}

/// The definitions the shell reads first. Namespaces have no path; they are named by our descriptors.
fn commands_text(stage: &Stage, kind: Shell) -> String {
    let mut text = String::new();
    if kind == Shell::Bash {
        text.push_str("[ -n \"$PS1\" ] && [ -r ~/.bashrc ] && . ~/.bashrc\n");
    }
    for (name, namespace) in places(stage) {
        let path = format!("/proc/{}/fd/{}", std::process::id(), namespace.as_fd().as_raw_fd());
        // Writing to a String cannot fail.
        let _ = match kind {
            Shell::Bash => writeln!(text, "{name}() {{ nsenter --net={path} -- \"$@\"; }}"),
            Shell::Posix => writeln!(text, "alias {name}='nsenter --net={path} --'"),
        };
    }
    text.push_str("[ -n \"$PS1\" ] && PS1='(pointsman demo, client) $ '\ntrue\n");
    text
}

fn shell(kind: Shell, commands: &Path) -> Command {
    match (kind, std::io::stdin().is_terminal()) {
        (Shell::Bash, true) => {
            let mut shell = Command::new("bash");
            shell.arg("--rcfile").arg(commands).arg("-i");
            shell
        }
        (Shell::Bash, false) => {
            let mut shell = Command::new("bash");
            shell.env("BASH_ENV", commands);
            shell
        }
        (Shell::Posix, _) => {
            let mut shell = Command::new("sh");
            shell.arg("-i").env("ENV", commands);
            shell
        }
    }
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder: PathBuf| folder.join(program)).any(|file| file.is_file())
}
