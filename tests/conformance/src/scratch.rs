//! A folder for the files of one control plane, removed with it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub fn create() -> Result<Scratch, String> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pointsman-plane-{}-{number}", std::process::id()));
        // What an earlier process of the same number left behind when it was killed.
        let _ = fs::remove_dir_all(&path);
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|e| format!("making {}: {e}", path.display()))?;
        Ok(Scratch { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Write a file for this user only, and say where it is. One that is there is replaced as a whole.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let (path, unfinished) = (self.path.join(name), self.path.join(format!(".{name}.new")));
        let write = || {
            let mut options = fs::OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
            file.write_all(text.as_bytes())?;
            fs::rename(&unfinished, &path)
        };
        write().map_err(|e: std::io::Error| format!("writing {}: {e}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
