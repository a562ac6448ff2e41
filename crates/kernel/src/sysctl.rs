//! Kernel settings that are files: `/proc/sys`, and their kin elsewhere in `/proc` and `/sys`.
//!
//! `/proc/sys/net` shows the network namespace of the thread that opens a file there, not of the one that
//! mounted `/proc`: call these from a thread inside the namespace that is meant.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub enum SysctlError {
    /// The kernel does not know it: too old, or a module is not loaded.
    Absent {
        name: String,
    },
    /// The file system is mounted read-only, as in a container that is not privileged.
    ReadOnly {
        name: String,
        value: String,
    },
    /// No process may write it, not even root: such are the limits of all network namespaces in all but the first.
    Locked {
        name: String,
        value: String,
    },
    Read {
        name: String,
        source: io::Error,
    },
    Write {
        name: String,
        value: String,
        source: io::Error,
    },
}

/// Where the files lie: below `/`, or below a folder that stands for it.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    pub fn system() -> Root {
        Root(PathBuf::from("/"))
    }

    pub fn at(folder: impl Into<PathBuf>) -> Root {
        Root(folder.into())
    }

    /// What a file holds, without the end of its line. The name is a whole path: `/sys/module/…`.
    pub fn read(&self, name: &str) -> Result<String, SysctlError> {
        match fs::read_to_string(self.path(name)) {
            Ok(text) => Ok(text.trim_end().to_owned()),
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                Err(SysctlError::Absent { name: name.to_owned() })
            }
            Err(source) => Err(SysctlError::Read { name: name.to_owned(), source }),
        }
    }

    pub fn write(&self, name: &str, value: impl fmt::Display) -> Result<(), SysctlError> {
        let value = value.to_string();
        // Not `fs::write`: creating a missing file gives "permission denied" here, never "not found".
        let opened = fs::OpenOptions::new().write(true).truncate(true).open(self.path(name));
        let written = opened.and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()));
        let name = name.to_owned();
        written.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => SysctlError::Absent { name },
            io::ErrorKind::ReadOnlyFilesystem => SysctlError::ReadOnly { name, value },
            io::ErrorKind::PermissionDenied if self.is_locked(&name) => SysctlError::Locked { name, value },
            _ => SysctlError::Write { name, value, source },
        })
    }

    fn is_locked(&self, name: &str) -> bool {
        fs::metadata(self.path(name)).is_ok_and(|metadata| metadata.permissions().readonly())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(Path::new(name.trim_start_matches('/')))
    }
}

/// The value of `name`, e.g. `net/ipv4/ip_forward`. Slashes, because interface names may contain dots.
pub fn read(name: &str) -> Result<String, SysctlError> {
    Root::system().read(&whole(name))
}

pub fn write(name: &str, value: impl fmt::Display) -> Result<(), SysctlError> {
    Root::system().write(&whole(name), value)
}

fn whole(name: &str) -> String {
    format!("/proc/sys/{}", name.trim_start_matches('/'))
}

impl fmt::Display for SysctlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SysctlError::Absent { name } => {
                write!(f, "the kernel has no {name}; is the module that brings it loaded?")
            }
            SysctlError::ReadOnly { name, value } => {
                write!(
                    f,
                    "setting {name} to {value}: it is mounted read-only; run privileged or set it on the host"
                )
            }
            SysctlError::Locked { name, value } => {
                write!(f, "setting {name} to {value}: only allowed in the node's initial network namespace")
            }
            SysctlError::Read { name, source } => write!(f, "reading {name}: {source}"),
            SysctlError::Write { name, value, source } => write!(f, "setting {name} to {value}: {source}"),
        }
    }
}

impl std::error::Error for SysctlError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stands_for_the_root() {
        let folder = std::env::temp_dir().join(format!("pointsman-sysctl-{}", std::process::id()));
        fs::create_dir_all(folder.join("proc/sys")).unwrap();
        fs::write(folder.join("proc/sys/limit"), "131072\n").unwrap();
        let root = Root::at(&folder);
        assert_eq!(root.read("/proc/sys/limit").unwrap(), "131072");
        root.write("/proc/sys/limit", 7).unwrap();
        assert_eq!(root.read("/proc/sys/limit").unwrap(), "7");
        for error in [root.read("/proc/sys/other").map(drop), root.write("/proc/sys/other", 1)] {
            assert!(matches!(error, Err(SysctlError::Absent { .. })), "{error:?}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
