//! Why the demo ended early.

use std::fmt;
use std::io;
use std::path::PathBuf;

use cluster::manifests::ManifestError;
use dataplane::SyncError;
use kernel::netns::NamespaceError;
use kernel::nft;
use sandbox::SandboxError;

use super::binary::OVERRIDE;

#[derive(Debug)]
pub(super) enum DemoError {
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
    /// There is no `kube-proxy` at this path.
    NoAgent(PathBuf),
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
                write!(f, "cannot start a shell without a sandbox of network namespaces: {why}")
            }
            DemoError::Sandbox(source) => source.fmt(f),
            DemoError::Namespace(source) => source.fmt(f),
            DemoError::File { path, source } => write!(f, "{}: {source}", path.display()),
            DemoError::System { what, source } => write!(f, "cannot {what}: {source}"),
            DemoError::NoAgent(path) => write!(
                f,
                "there is no kube-proxy at {}: build it with `make build`, or name one in {OVERRIDE}",
                path.display()
            ),
            DemoError::Agent { what, said } if said.is_empty() => write!(f, "the agent {what}"),
            DemoError::Agent { what, said } => write!(f, "the agent {what}; its last log line: {said}"),
            DemoError::NotSeen(what) => f.write_str(what),
            DemoError::Manifests(source) => source.fmt(f),
            DemoError::Sync(source) => source.fmt(f),
            DemoError::Netlink(source) => source.fmt(f),
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
