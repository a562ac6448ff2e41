//! What does not end with a process: folders and control groups.

use std::fs;

use test_support::{SOON, wait_until};

use crate::cgroup;

/// Remove what the process with this number left; it must have ended.
pub fn remove(process: u32) {
    cgroup::remove_leftovers();
    let prefix = format!("pointsman-plane-{process}-");
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            // What it started is being killed and may still write there.
            wait_until(SOON, || {
                let _ = fs::remove_dir_all(entry.path());
                !entry.path().exists()
            });
        }
    }
}
