//! Kernel settings that are files: `/proc/sys`, and their kin elsewhere in `/proc` and `/sys`.
//!
//! `/proc/sys/net` shows the network namespace of the thread that opens a file there, not of the one that
//! mounted `/proc`: call these from a thread inside the namespace that is meant.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
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

/// A few files that are read often: they stay open, and to read one is one system call.
#[derive(Debug)]
pub struct OpenFiles {
    root: Root,
    files: HashMap<&'static str, File>,
}

impl OpenFiles {
    pub fn below(root: Root) -> OpenFiles {
        OpenFiles { root, files: HashMap::new() }
    }

    pub fn root(&self) -> &Root {
        &self.root
    }

    /// What a file with a short value holds now, without the end of its line.
    pub fn read(&mut self, name: &'static str) -> Result<String, SysctlError> {
        if let Some(text) = self.files.get(name).and_then(read_short) {
            return Ok(text);
        }
        // Not open yet, or its module was unloaded since and loaded again.
        self.files.remove(name);
        let text = self.root.read(name)?;
        self.files.extend(File::open(self.root.path(name)).ok().map(|file| (name, file)));
        Ok(text)
    }
}

fn read_short(file: &File) -> Option<String> {
    let mut buffer = [0; 64];
    let length = file.read_at(&mut buffer, 0).ok().filter(|length| *length > 0 && *length < buffer.len())?;
    let text = std::str::from_utf8(buffer.get(..length)?).ok()?;
    Some(text.trim_end().to_owned())
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

    #[test]
    fn an_open_file_shows_what_it_holds_now() {
        const NAME: &str = "/limit";
        let folder = std::env::temp_dir().join(format!("pointsman-open-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut files = OpenFiles::below(Root::at(&folder));
        assert!(matches!(files.read(NAME), Err(SysctlError::Absent { .. })));
        fs::write(folder.join("limit"), "1\n").unwrap();
        for value in ["1", "22", "3"] {
            files.root().write(NAME, value).unwrap();
            assert_eq!(files.read(NAME).unwrap(), value);
        }
        // As after a module was unloaded.
        fs::write(folder.join("limit"), "").unwrap();
        fs::remove_file(folder.join("limit")).unwrap();
        assert!(files.read(NAME).is_err());
        fs::write(folder.join("limit"), "4\n").unwrap();
        assert_eq!(files.read(NAME).unwrap(), "4");
        fs::remove_dir_all(&folder).unwrap();
    }
}
