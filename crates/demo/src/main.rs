//! `pointsman-demo`: what the agent does, shown on a small cluster inside this machine.
//!
//! [`sandboxed`] runs the real agent among network namespaces and sends real packets. Where the machine
//! refuses namespaces, [`interpreted`] walks the same manifests through an interpreter of the rules. What
//! both show in the same way is in [`scenes`]; what they play on is in [`cast`].

mod binary;
mod cast;
mod commit;
mod error;
mod folder;
mod interpreted;
mod leftovers;
mod sandboxed;
mod scenes;
mod screen;
mod slices;
mod tally;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use kernel::netns::{self, Privilege};

use error::DemoError;
use leftovers::Leftovers;
use sandboxed::{Act, Opening};
use screen::Screen;

/// Set, the rules are interpreted although the machine may allow namespaces.
const INTERPRETED: &str = "POINTSMAN_DEMO_INTERPRETED";

const HELP: &str = "\
Usage: pointsman-demo [--shell]

Shows the agent at work on a small cluster inside this machine: a node, pods, a second node and a client,
each a network namespace. Takes some seconds, needs no cluster, and leaves nothing behind. It needs no root
where the kernel lets users make namespaces; where it does not, the rules are interpreted instead.

  --shell   no tour: a shell in the sandbox with the agent running, to try curl and nft yourself
  --help    this text

The agent is the kube-proxy beside this program, or the one that POINTSMAN_KUBE_PROXY names.
Colours go to terminals only, and never if NO_COLOR is set.
";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Invocation {
    Tour,
    Shell,
    Help,
}

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    match parse(arguments).and_then(|invocation| run(invocation).map_err(|error| error.to_string())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // The reader may be gone.
            let _ = writeln!(std::io::stderr(), "pointsman-demo: {message}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: impl Iterator<Item = String>) -> Result<Invocation, String> {
    let mut invocation = Invocation::Tour;
    for argument in arguments {
        match &*argument {
            "--help" | "-h" | "-help" => return Ok(Invocation::Help),
            "--shell" | "-shell" => invocation = Invocation::Shell,
            other => {
                return Err(format!("unknown argument {other:?}; see pointsman-demo --help"));
            }
        }
    }
    Ok(invocation)
}

/// Play. Call it while the process has one thread: a user namespace cannot be entered later.
fn run(invocation: Invocation) -> Result<(), DemoError> {
    if invocation == Invocation::Help {
        // The reader that closed the pipe has read enough.
        let _ = std::io::stdout().write_all(HELP.as_bytes());
        return Ok(());
    }
    let right = match std::env::var_os(INTERPRETED) {
        Some(_) => Err(format!("{INTERPRETED} is set")),
        None => netns::acquire().map_err(|denied| denied.to_string()),
    };
    let leftovers = Leftovers::watched()?;
    let screen = Screen::new(Arc::clone(&leftovers));
    let played = play(invocation, right, &screen, &leftovers);
    leftovers.clear();
    played
}

fn play(
    invocation: Invocation,
    right: Result<Privilege, String>,
    screen: &Screen,
    leftovers: &Arc<Leftovers>,
) -> Result<(), DemoError> {
    let act = if invocation == Invocation::Shell { Act::Shell } else { Act::Tour };
    let obstacle = match right {
        Ok(privilege) => match sandboxed::open(privilege, leftovers)? {
            Opening::Stage(mut stage) => return sandboxed::play(act, &mut stage, screen, leftovers),
            Opening::Impossible(why) => why,
        },
        Err(why) => why,
    };
    match act {
        Act::Shell => Err(DemoError::NoSandbox(obstacle)),
        Act::Tour => interpreted::tour(screen, leftovers, &obstacle),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let read = |arguments: &[&str]| parse(arguments.iter().map(|argument| (*argument).to_owned()));
        assert_eq!(read(&[]), Ok(Invocation::Tour));
        assert_eq!(read(&["--shell"]), Ok(Invocation::Shell));
        assert_eq!(read(&["--shell", "--help"]), Ok(Invocation::Help));
        assert!(read(&["--sell"]).unwrap_err().contains("\"--sell\""));
    }
}
