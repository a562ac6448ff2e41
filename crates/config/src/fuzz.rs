//! An entry point for `tests/fuzz` to the command line and the configuration file, without reading files.

use crate::DefaultMode;
use crate::flags::{self, Parsed};

/// What a command line asks for if its configuration file, named or not, holds this text.
pub fn command(arguments: Vec<String>, file: Option<String>) -> Result<Parsed, String> {
    flags::parse_beside(arguments.into_iter(), DefaultMode::nftables, |_| file.map(Ok))
}
