//! `kube-proxy demo`: what the agent does, shown on a small cluster inside this machine.
//!
//! [`sandboxed`] runs the real agent among network namespaces and sends real packets. Where the machine
//! refuses namespaces, [`interpreted`] walks the same manifests through an interpreter of the rules. What
//! both show in the same way is in [`scenes`]; what they play on is in [`cast`].

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

use std::sync::Arc;

use kernel::netns::{self, Privilege};

pub use error::DemoError;
use leftovers::Leftovers;
use sandboxed::{Act, Opening};
use screen::Screen;

/// Set, the rules are interpreted although the machine may allow namespaces.
const INTERPRETED: &str = "POINTSMAN_DEMO_INTERPRETED";

pub const HELP: &str = "\
Usage: kube-proxy demo [--shell]

Shows the agent at work on a small cluster inside this machine: a node, pods, a second node and a client,
each a network namespace. Takes some seconds, needs no cluster, and leaves nothing behind. It needs no root
where the kernel lets users make namespaces; where it does not, the rules are interpreted instead.

  --shell   no tour: a shell in the sandbox with the agent running, to try curl and nft yourself
  --help    this text

Colours go to terminals only, and never if NO_COLOR is set.
";

/// What was asked for behind `demo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invocation {
    Tour,
    Shell,
    Help,
}

/// Read the arguments behind `demo`.
pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Invocation, String> {
    let mut invocation = Invocation::Tour;
    for argument in arguments {
        match &*argument {
            "--help" | "-h" | "-help" => return Ok(Invocation::Help),
            "--shell" | "-shell" => invocation = Invocation::Shell,
            other => {
                return Err(format!("demo: unknown argument {other:?}; see kube-proxy demo --help"));
            }
        }
    }
    Ok(invocation)
}

/// Play. Call it while the process has one thread: a user namespace cannot be entered later.
pub fn run(invocation: Invocation) -> Result<(), DemoError> {
    if invocation == Invocation::Help {
        print!("{HELP}");
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
