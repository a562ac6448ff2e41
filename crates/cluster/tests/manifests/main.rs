//! The file source against real folders: one reading after another, and a live watch.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use cluster::manifests::{
    Loaded, ManifestError, ManifestProblem, ManifestSource, ManifestWatch, raw_documents,
};
use cluster::{ClusterState, ObjectChange, Update};
use proptest::prelude::*;

mod live;
mod read;

/// A folder of its own for every test, gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("manifests-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: impl AsRef<str>) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text.as_ref()).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn service(name: &str, port: u32) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\nspec:\n  clusterIP: 10.96.0.1\n  ports:\n  - port: {port}\n"
    )
}

/// One that cannot be used.
fn broken(name: &str) -> String {
    service(name, 1).replace("10.96.0.1", "10.96.0.one")
}

fn documents(texts: &[String]) -> String {
    texts.join("---\n")
}

/// What a problem ends in before everything was read whole.
const UNTOUCHED: &str =
    "nothing is programmed until this is fixed or removed; rules of an earlier run stay as they are";

/// The source together with a state that follows it.
struct Followed {
    source: ManifestSource,
    state: ClusterState,
    problems: Vec<String>,
    last: Vec<String>,
    is_complete: bool,
}

impl Followed {
    fn new(path: &Path) -> Followed {
        let mut followed = Followed {
            source: ManifestSource::new(path),
            state: ClusterState::default(),
            problems: Vec::new(),
            last: Vec::new(),
            is_complete: false,
        };
        followed.load();
        followed
    }

    /// Read again; returns what changed, like `+web` and `-web`.
    fn load(&mut self) -> Vec<String> {
        let Loaded { changes, problems, is_complete } = self.source.load().unwrap();
        self.is_complete = is_complete;
        let word = |change: &ObjectChange| match change {
            ObjectChange::Apply(object) => format!("+{}", object.key.name()),
            ObjectChange::Delete(key) => format!("-{}", key.name()),
        };
        self.last = changes.iter().map(word).collect();
        self.last.sort();
        changes.into_iter().for_each(|change| self.state.change(change));
        self.problems = problems.iter().map(ToString::to_string).collect();
        self.last.clone()
    }

    fn ports(&self) -> BTreeMap<String, u16> {
        ports(&self.state)
    }
}

/// Every service by name, with its first port or 0.
fn ports(state: &ClusterState) -> BTreeMap<String, u16> {
    let name = |key: &str| key.strip_prefix("default/").unwrap().to_owned();
    state
        .services()
        .map(|key| (name(key), state.service(key).unwrap().ports.first().map_or(0, |port| port.port)))
        .collect()
}

fn expected<const N: usize>(pairs: [(&str, u16); N]) -> BTreeMap<String, u16> {
    pairs.into_iter().map(|(name, port)| (name.to_owned(), port)).collect()
}
