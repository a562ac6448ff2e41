//! Why an iptables tool did not do what it was asked, in words for an operator.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io};

use super::judge;

#[derive(Debug)]
pub enum ToolError {
    Start {
        tool: PathBuf,
        source: io::Error,
    },
    /// It was ended, because it took longer than any work that it could have.
    Slow {
        tool: PathBuf,
        limit: Duration,
    },
    /// Another program holds the lock of the legacy tables.
    Locked {
        tool: PathBuf,
        file: PathBuf,
        seconds: u32,
    },
    /// The lock of the legacy tables cannot be asked for.
    LockFile {
        tool: PathBuf,
        file: PathBuf,
        said: String,
    },
    NotPermitted {
        tool: PathBuf,
        said: String,
    },
    /// The kernel has no such tables, or does not show them to this process: the legacy tool does not tell which.
    NoTables {
        tool: PathBuf,
        said: String,
    },
    /// A table of iptables contains rules of `nft`; the tools write there and cannot read it any more.
    Unreadable {
        tool: PathBuf,
        table: &'static str,
    },
    Refused {
        tool: PathBuf,
        said: String,
        /// The line of the script that it stopped at, from 1.
        line: Option<usize>,
        /// What is on that line.
        text: Option<String>,
    },
}

impl ToolError {
    /// A script that was not taken, and the number of the line if it is known.
    pub fn refused(tool: &Path, said: String, line: Option<usize>, script: &str) -> ToolError {
        let text = line.and_then(|line| judge::line_of(script, line)).map(str::to_owned);
        ToolError::Refused { tool: tool.to_owned(), said, line, text }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToolError::Start { tool, source } => write!(f, "{} cannot be run: {source}", tool.display()),
            ToolError::Slow { tool, limit } => {
                write!(f, "{} did not end within {limit:?} and was killed", tool.display())
            }
            ToolError::Unreadable { tool, table } => write!(
                f,
                "{} cannot read the table {table}: it contains rules written by nft (nft list table shows them); \
                 move these to a table of their own",
                tool.display()
            ),
            ToolError::Locked { tool, file, seconds } => write!(
                f,
                "{} waited {seconds} s for the lock of the tables, {}, which another program holds; fuser -v {} \
                 shows which",
                tool.display(),
                file.display(),
                file.display()
            ),
            ToolError::LockFile { tool, file, said } => write!(
                f,
                "{} cannot open the lock of the tables, {}: {said}; mount the host's file there, writable, \
                 or name another by XTABLES_LOCKFILE",
                tool.display(),
                file.display()
            ),
            ToolError::NotPermitted { tool, said } => write!(
                f,
                "{} may not change tables: {said}; run this as root, or give its container the capabilities \
                 NET_ADMIN and NET_RAW",
                tool.display()
            ),
            ToolError::NoTables { tool, said } => write!(
                f,
                "{} found no tables in the kernel: {said}; load the modules that it needs, or use another mode",
                tool.display()
            ),
            ToolError::Refused { tool, said, line: Some(line), text: Some(text) } if text == "COMMIT" => {
                write!(
                    f,
                    "{} failed: the kernel refused the table that ends at line {line}: {said}",
                    tool.display()
                )
            }
            ToolError::Refused { tool, said, line: Some(line), text: Some(text) } => {
                write!(f, "{} failed at line {line}, {text:?}: {said}", tool.display())
            }
            ToolError::Refused { tool, said, .. } => write!(f, "{} failed: {said}", tool.display()),
        }
    }
}

impl std::error::Error for ToolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ToolError::Start { source, .. } => Some(source),
            _ => None,
        }
    }
}
