//! Why a sandbox could not be built, and in which part of it.

use std::fmt;

use kernel::link::LinkError;
use kernel::netns::NamespaceError;
use kernel::sysctl::SysctlError;

#[derive(Debug)]
pub enum SandboxError {
    Namespace {
        part: String,
        source: NamespaceError,
    },
    Link {
        part: String,
        source: LinkError,
    },
    Sysctl {
        part: String,
        source: SysctlError,
    },
    /// Two pods of one name.
    NameTaken {
        name: String,
    },
    NoSuchPod {
        name: String,
    },
    /// The range of this place has no address left.
    OutOfAddresses {
        name: String,
    },
    /// A server could not listen.
    Listen {
        name: String,
        at: std::net::SocketAddr,
        source: std::io::Error,
    },
}

/// What can fail inside a namespace; [`SandboxError`] adds in which.
#[derive(Debug)]
pub(crate) enum PartError {
    Link(LinkError),
    Sysctl(SysctlError),
}

impl PartError {
    pub(crate) fn within(self, part: &str) -> SandboxError {
        let part = part.to_owned();
        match self {
            PartError::Link(source) => SandboxError::Link { part, source },
            PartError::Sysctl(source) => SandboxError::Sysctl { part, source },
        }
    }
}

impl From<LinkError> for PartError {
    fn from(error: LinkError) -> PartError {
        PartError::Link(error)
    }
}

impl From<SysctlError> for PartError {
    fn from(error: SysctlError) -> PartError {
        PartError::Sysctl(error)
    }
}

impl fmt::Display for SandboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SandboxError::Namespace { part, source } => write!(f, "sandbox, {part}: {source}"),
            SandboxError::Link { part, source } => write!(f, "sandbox, {part}: {source}"),
            SandboxError::Sysctl { part, source } => write!(f, "sandbox, {part}: {source}"),
            SandboxError::NameTaken { name } => write!(f, "sandbox: there is already a pod {name}"),
            SandboxError::NoSuchPod { name } => write!(f, "sandbox: there is no pod {name}"),
            SandboxError::OutOfAddresses { name } => {
                write!(f, "sandbox: no address is left for the pod {name}")
            }
            SandboxError::Listen { name, at, source } => {
                write!(f, "server {name}: listening on {at}: {source}")
            }
        }
    }
}

impl std::error::Error for SandboxError {}
