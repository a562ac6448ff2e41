//! A folder for the length of a measurement.

use std::path::{Path, PathBuf};

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> std::io::Result<Scratch> {
        let path = std::env::temp_dir().join(format!("pointsman-bench-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Scratch(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays behind lies in the folder for such things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
