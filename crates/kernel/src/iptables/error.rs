//! Why an iptables tool did not do what it was asked.

use std::path::PathBuf;
use std::{fmt, io};

#[derive(Debug)]
pub enum ToolError {
    Start {
        tool: PathBuf,
        source: io::Error,
    },
    Refused {
        tool: PathBuf,
        said: String,
        /// The line of the script that it stopped at, from 1.
        line: Option<usize>,
    },
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToolError::Start { tool, source } => write!(f, "{} cannot be run: {source}", tool.display()),
            ToolError::Refused { tool, said, .. } => write!(f, "{} failed: {said}", tool.display()),
        }
    }
}

impl std::error::Error for ToolError {}
