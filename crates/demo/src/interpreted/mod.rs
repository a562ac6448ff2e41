//! The same manifests and the same rules without a kernel: packets are walked through an interpreter.

mod tour;
mod world;

use super::leftovers::Leftovers;

use super::{DemoError, cast, commit, folder, scenes, screen, slices};

pub(super) use tour::play as tour;
