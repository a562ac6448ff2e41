//! Why there are no tools to work with.

use std::fmt;
use std::path::PathBuf;

use super::{ToolError, Version};

/// Why one address family has no tools.
#[derive(Debug)]
pub enum Missing {
    NotInstalled {
        /// `iptables` or `ip6tables`.
        program: &'static str,
    },
    /// The kernel was built or started without IPv6.
    NoIpv6,
    TooOld {
        tool: PathBuf,
        found: Version,
    },
    /// It is no iptables, by what it answers when asked for its version.
    Unknown {
        tool: PathBuf,
        said: String,
    },
    Failed(ToolError),
}

/// Neither address family has tools: why not of IPv4, and of IPv6.
#[derive(Debug)]
pub struct ChooseError(pub Box<[Missing; 2]>);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::NotInstalled { program } => write!(
                f,
                "{program}, {program}-save and {program}-restore are not installed: install iptables {} or later, \
                 or use the image that holds them",
                Version::NEEDED
            ),
            Missing::NoIpv6 => write!(f, "the kernel has no IPv6"),
            Missing::TooOld { tool, found } => write!(
                f,
                "{} is of version {found}; {} or later is needed, for --wait of iptables-restore",
                tool.display(),
                Version::NEEDED
            ),
            Missing::Unknown { tool, said } => {
                write!(f, "{} is not a known iptables; its version output is {said:?}", tool.display())
            }
            Missing::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Missing {}

impl fmt::Display for ChooseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            [v4, Missing::NoIpv6 | Missing::NotInstalled { .. }] => v4.fmt(f),
            [v4, v6] => write!(f, "for IPv4, {v4}; for IPv6, {v6}"),
        }
    }
}

impl std::error::Error for ChooseError {}
