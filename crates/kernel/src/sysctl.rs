//! Kernel settings under `/proc/sys`.
//!
//! `/proc/sys/net` shows the network namespace of the thread that opens a file there, not of the one that
//! mounted `/proc`: call these from a thread inside the namespace that is meant.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;

#[derive(Debug)]
pub enum SysctlError {
    /// The kernel does not know it: too old, or a module is not loaded.
    Absent {
        name: String,
    },
    /// `/proc/sys` is mounted read-only, as in a container that is not privileged.
    ReadOnly {
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

/// The value of `name`, e.g. `net/ipv4/ip_forward`. Slashes, because interface names may contain dots.
pub fn read(name: &str) -> Result<String, SysctlError> {
    match fs::read_to_string(path(name)) {
        Ok(text) => Ok(text.trim_end().to_owned()),
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            Err(SysctlError::Absent { name: name.to_owned() })
        }
        Err(source) => Err(SysctlError::Read { name: name.to_owned(), source }),
    }
}

pub fn write(name: &str, value: impl fmt::Display) -> Result<(), SysctlError> {
    let (name, value) = (name.to_owned(), value.to_string());
    // Not `fs::write`: creating a missing file gives "permission denied" here, never "not found".
    let opened = fs::OpenOptions::new().write(true).open(path(&name));
    let written = opened.and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()));
    written.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => SysctlError::Absent { name },
        io::ErrorKind::ReadOnlyFilesystem => SysctlError::ReadOnly { name, value },
        _ => SysctlError::Write { name, value, source },
    })
}

fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name.trim_start_matches('/'))
}

impl fmt::Display for SysctlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SysctlError::Absent { name } => {
                write!(f, "the kernel has no sysctl {name}; is the module that brings it loaded?")
            }
            SysctlError::ReadOnly { name, value } => {
                write!(
                    f,
                    "setting {name} to {value}: /proc/sys is read-only; run privileged or set it on the host"
                )
            }
            SysctlError::Read { name, source } => write!(f, "reading {name}: {source}"),
            SysctlError::Write { name, value, source } => write!(f, "setting {name} to {value}: {source}"),
        }
    }
}

impl std::error::Error for SysctlError {}
