//! The real thing: namespaces, servers, and this very binary as the agent among them.

mod agent;
mod changes;
mod load;
mod repair;
mod shell;
mod stage;
mod tour;

use kernel::netns::Privilege;

use super::leftovers::Leftovers;
use super::screen::Screen;
use super::{DemoError, cast, commit, folder, scenes, screen, slices};
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
pub(super) fn open(privilege: Privilege, leftovers: &Leftovers) -> Opening {
    match Stage::open(privilege, leftovers) {
        Ok(stage) => Opening::Stage(Box::new(stage)),
        Err(error) => {
            leftovers.clear();
            let text = error.to_string();
            Opening::Impossible(text.strip_prefix("demo: ").unwrap_or(&text).to_owned())
        }
    }
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
