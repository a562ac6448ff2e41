//! Why the manifests cannot be used at all.

use std::path::PathBuf;
use std::{error, fmt, io};

#[derive(Debug)]
pub enum ManifestError {
    Missing { path: PathBuf },
    Unreadable { path: PathBuf, source: io::Error },
    Unwatchable { path: PathBuf, source: io::Error },
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ManifestError::Missing { path } => {
                write!(
                    f,
                    "manifests: {} does not exist; name a file or a folder of manifests",
                    path.display()
                )
            }
            ManifestError::Unreadable { path, source } => {
                write!(
                    f,
                    "manifests: {} cannot be read: {source}; let this user read it or name another path",
                    path.display()
                )
            }
            ManifestError::Unwatchable { path, source } => write!(
                f,
                "manifests: {} cannot be watched: {source}; fs.inotify.max_user_instances may be too low",
                path.display()
            ),
        }
    }
}

impl error::Error for ManifestError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            ManifestError::Missing { .. } => None,
            ManifestError::Unreadable { source, .. } | ManifestError::Unwatchable { source, .. } => {
                Some(source)
            }
        }
    }
}
