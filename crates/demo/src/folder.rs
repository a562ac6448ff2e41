//! The folder the agent reads: manifests, written whole or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::DemoError;
use super::cast::Member;
use super::slices::Backed;

const BUNDLED: [(&str, &str); 6] = [
    ("node.yaml", include_str!("manifests/node.yaml")),
    ("web.yaml", include_str!("manifests/web.yaml")),
    ("web-local.yaml", include_str!("manifests/web-local.yaml")),
    ("cart.yaml", include_str!("manifests/cart.yaml")),
    ("dns.yaml", include_str!("manifests/dns.yaml")),
    ("empty.yaml", include_str!("manifests/empty.yaml")),
];

pub(super) struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Write all manifests into `root`, which exists.
    pub(super) fn fill(root: PathBuf, members: &[Member]) -> Result<Folder, DemoError> {
        let folder = Folder { root };
        let manifests = folder.manifests();
        fs::create_dir(&manifests).map_err(|source| DemoError::File { path: manifests, source })?;
        for (name, text) in BUNDLED {
            folder.put(name, text)?;
        }
        for service in Backed::ALL {
            folder.put_members(service, members)?;
        }
        Ok(folder)
    }

    pub(super) fn manifests(&self) -> PathBuf {
        self.root.join("manifests")
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Say which pods are behind a service; gives the moment just before the new text was there to be read.
    pub(super) fn put_members(&self, service: Backed, members: &[Member]) -> Result<Instant, DemoError> {
        self.put(&format!("{}-endpoints.yaml", service.name()), &service.manifest(members))
    }

    /// By renaming, so that half a file is never read. The agent ignores names that begin with a dot.
    fn put(&self, name: &str, text: &str) -> Result<Instant, DemoError> {
        let path = self.manifests().join(name);
        replace(&path, &self.manifests().join(format!(".{name}")), text)
            .map_err(|source| DemoError::File { path, source })
    }
}

fn replace(path: &Path, aside: &Path, text: &str) -> io::Result<Instant> {
    fs::write(aside, text)?;
    let now = Instant::now();
    fs::rename(aside, path)?;
    Ok(now)
}
