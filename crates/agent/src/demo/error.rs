//! Why the demo ended early.

use std::fmt;
use std::io;
use std::path::PathBuf;

use cluster::manifests::ManifestError;
use dataplane::SyncError;
use kernel::netns::NamespaceError;
use kernel::nft;
use sandbox::SandboxError;

#[derive(Debug)]
pub enum DemoError {
    /// `--shell` where namespaces are refused.
    NoSandbox(String),
    Sandbox(SandboxError),
    Namespace(NamespaceError),
    File {
        path: PathBuf,
        source: io::Error,
    },
    System {
        what: &'static str,
        source: io::Error,
    },
    /// The agent ended or never got ready; with what it said last.
    Agent {
        what: &'static str,
        said: String,
    },
    /// Something that should have been seen was not, in the time given.
    NotSeen(String),
    Manifests(ManifestError),
    Sync(SyncError),
    Netlink(nft::CommitError),
}

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DemoError::NoSandbox(why) => {
                write!(f, "demo: a shell needs a sandbox of network namespaces, and there is none: {why}")
            }
            DemoError::Sandbox(source) => write!(f, "demo: {source}"),
            DemoError::Namespace(source) => write!(f, "demo: {source}"),
            DemoError::File { path, source } => write!(f, "demo: {}: {source}", path.display()),
            DemoError::System { what, source } => write!(f, "demo: cannot {what}: {source}"),
            DemoError::Agent { what, said } if said.is_empty() => write!(f, "demo: the agent {what}"),
            DemoError::Agent { what, said } => write!(f, "demo: the agent {what}; it said last: {said}"),
            DemoError::NotSeen(what) => write!(f, "demo: {what}"),
            DemoError::Manifests(source) => write!(f, "demo: {source}"),
            DemoError::Sync(source) => write!(f, "demo: {source}"),
            DemoError::Netlink(source) => write!(f, "demo: {source}"),
        }
    }
}

impl std::error::Error for DemoError {}

impl From<SandboxError> for DemoError {
    fn from(source: SandboxError) -> DemoError {
        DemoError::Sandbox(source)
    }
}

impl From<NamespaceError> for DemoError {
    fn from(source: NamespaceError) -> DemoError {
        DemoError::Namespace(source)
    }
}

impl From<SyncError> for DemoError {
    fn from(source: SyncError) -> DemoError {
        DemoError::Sync(source)
    }
}

impl From<ManifestError> for DemoError {
    fn from(source: ManifestError) -> DemoError {
        DemoError::Manifests(source)
    }
}

impl From<nft::CommitError> for DemoError {
    fn from(source: nft::CommitError) -> DemoError {
        DemoError::Netlink(source)
    }
}
