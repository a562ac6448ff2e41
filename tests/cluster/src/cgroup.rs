//! A control group for each node, under which its kubelet puts those of the pods. In every hierarchy of version 1, or in
//! the one of version 2.

use std::fs;
use std::path::{Path, PathBuf};

use test_support::{SOON, wait_until};

const ROOT: &str = "/sys/fs/cgroup";
const PREFIX: &str = "pointsman";

/// Removed when it is dropped, with all that is below it: what ran there must have ended.
#[derive(Debug)]
pub(crate) struct Cgroup {
    name: String,
}

impl Cgroup {
    pub(crate) fn create(node: &str) -> Result<Cgroup, String> {
        let cgroup = Cgroup { name: format!("{PREFIX}-{}-{node}", std::process::id()) };
        for hierarchy in hierarchies() {
            let folder = hierarchy.join(&cgroup.name);
            fs::create_dir_all(&folder).map_err(|e| format!("making {}: {e}", folder.display()))?;
            // Version 1: empty in a new group, in which then nothing can run.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                if let Ok(all) = fs::read(hierarchy.join(file)) {
                    fs::write(folder.join(file), all)
                        .map_err(|e| format!("{file} of {}: {e}", folder.display()))?;
                }
            }
        }
        Ok(cgroup)
    }

    /// As the kubelet's configuration names it.
    pub(crate) fn path(&self) -> String {
        format!("/{}", self.name)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// What is left of processes that were killed.
pub(crate) fn remove_leftovers() {
    let names = hierarchies().into_iter().flat_map(|hierarchy| fs::read_dir(hierarchy).into_iter().flatten());
    let names = names.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    for name in names {
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').nth(1));
        if owner.is_some_and(|id| id.parse::<u32>().is_ok() && !Path::new("/proc").join(id).exists()) {
            remove(&name);
        }
    }
}

fn hierarchies() -> Vec<PathBuf> {
    let root = PathBuf::from(ROOT);
    if root.join("cgroup.controllers").exists() {
        return vec![root];
    }
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.join("cgroup.procs").exists()).collect()
}

fn remove(name: &str) {
    for hierarchy in hierarchies() {
        let folder = hierarchy.join(name);
        // A process that was killed stays in its group until the kernel is done with it.
        wait_until(SOON, || {
            remove_tree(&folder);
            !folder.exists()
        });
    }
}

/// Groups are removed as folders, from the leaves on; their files are not files that could be.
fn remove_tree(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    let _ = fs::remove_dir(folder);
}
