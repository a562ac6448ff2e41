//! The real thing: namespaces, servers, and the real `kube-proxy` among them.

mod agent;
mod changes;
mod load;
mod repair;
mod shell;
mod stage;
mod tour;

use kernel::netns::Privilege;
use kernel::nft;

use super::leftovers::Leftovers;
use super::screen::Screen;
use super::{DemoError, binary, cast, commit, folder, scenes, screen, slices};
use stage::Stage;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Tour,
    Shell,
}

/// What came of the attempt to build the stage.
pub(super) enum Opening {
    Stage(Box<Stage>),
    /// This machine does not allow it, in one line.
    Impossible(String),
}

/// Build the sandbox and start the agent in it. Call it from the thread that lives longest: the agent is
/// bound to it.
pub(super) fn open(privilege: Privilege, leftovers: &Leftovers) -> Result<Opening, DemoError> {
    let kube_proxy = binary::kube_proxy()?;
    let sandbox = match stage::build() {
        Ok(sandbox) => sandbox,
        Err(error) => return Ok(Opening::Impossible(error.to_string())),
    };
    if let Err(error) = sandbox.node.try_run(|| nft::probe(nft::OLDEST_KERNEL))? {
        return Ok(Opening::Impossible(error.to_string()));
    }
    Ok(Opening::Stage(Box::new(Stage::open(privilege, sandbox, &kube_proxy, leftovers)?)))
}

pub(super) fn play(
    act: Act,
    stage: &mut Stage,
    screen: &Screen,
    leftovers: &Leftovers,
) -> Result<(), DemoError> {
    match act {
        Act::Tour => tour::play(stage, screen),
        Act::Shell => shell::play(stage, screen, leftovers),
    }
}
