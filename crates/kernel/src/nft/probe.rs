//! May we use nf_tables here at all, asked before anything is changed.

use std::ffi::CStr;
use std::fmt;
use std::io;

use super::{Connection, Error, Transport};

/// Has what nftables mode needs: concatenated keys in maps, and `numgen` beside them.
pub const OLDEST_KERNEL: (u32, u32) = (5, 13);

/// What stands in the way.
#[derive(Debug)]
pub enum ProbeError {
    TooOld {
        found: (u32, u32),
        needed: (u32, u32),
    },
    /// The kernel was built without nf_tables, or cannot load the module.
    Absent(io::Error),
    NotPermitted,
    NoSocket(io::Error),
    Failed(Error),
}

/// Whether this kernel has nf_tables, is at least of release `needed`, and lets this process use it.
pub fn probe(needed: (u32, u32)) -> Result<(), ProbeError> {
    // A release that cannot be read is no reason to refuse: the commits will tell.
    if let Some(found) = kernel_release().filter(|found| *found < needed) {
        return Err(ProbeError::TooOld { found, needed });
    }
    let mut connection = Connection::open().map_err(|error| match means_absent(&error) {
        true => ProbeError::Absent(error),
        // A socket takes no capability. Something else denies it, a seccomp profile for one.
        false => ProbeError::NoSocket(error),
    })?;
    match connection.generation() {
        Ok(_) => Ok(()),
        Err(Error::Failed { source, .. }) if source.raw_os_error() == Some(libc::EPERM) => {
            Err(ProbeError::NotPermitted)
        }
        Err(Error::Failed { source, .. }) if means_absent(&source) => Err(ProbeError::Absent(source)),
        Err(other) => Err(ProbeError::Failed(other)),
    }
}

/// A connection for reading and removing; `None` where the kernel has no nf_tables, and so nothing in it.
pub fn connect_if_present() -> io::Result<Option<Connection>> {
    let mut connection = match Connection::open() {
        Err(error) if means_absent(&error) => return Ok(None),
        opened => opened?,
    };
    match connection.generation() {
        Err(Error::Failed { source, .. }) if means_absent(&source) => Ok(None),
        // Whatever else is wrong, what is asked next says it of what was asked.
        _ => Ok(Some(connection)),
    }
}

fn means_absent(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        // What netfilter's netlink says for a subsystem that is not registered.
        Some(libc::EINVAL | libc::EOPNOTSUPP)
        // No netlink of netfilter's at all, or a kernel before 4.12, which cannot explain its errors.
        | Some(libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT | libc::ENOPROTOOPT)
    )
}

/// The first two numbers of the running kernel's release.
pub fn kernel_release() -> Option<(u32, u32)> {
    // SAFETY: utsname is plain data for which all zeroes is a valid value.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `names` is a live utsname.
    if unsafe { libc::uname(&mut names) } != 0 {
        return None;
    }
    // SAFETY: the kernel ends each name with a NUL inside its array.
    let release = unsafe { CStr::from_ptr(names.release.as_ptr()) };
    parse_release(release.to_str().ok()?)
}

fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeError::TooOld { found, needed } => write!(
                f,
                "the kernel is release {}.{}; nftables mode needs {}.{} or later",
                found.0, found.1, needed.0, needed.1
            ),
            ProbeError::Absent(error) => {
                write!(f, "the kernel has no nf_tables ({error}): load module nf_tables")
            }
            ProbeError::NotPermitted => {
                write!(
                    f,
                    "nf_tables is there, but this process lacks CAP_NET_ADMIN in the network namespace; run it as \
                     root, or give its container that capability"
                )
            }
            ProbeError::NoSocket(error) => write!(f, "cannot open a netlink socket: {error}"),
            ProbeError::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ProbeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_nf_tables_is_told_from_one_that_refuses() {
        let means = |errno| means_absent(&io::Error::from_raw_os_error(errno));
        // Not built in; netlink of netfilter's not built in either.
        assert!(means(libc::EINVAL) && means(libc::EPROTONOSUPPORT));
        assert!(!means(libc::EPERM) && !means(libc::EMFILE) && !means(libc::ENOBUFS));
    }

    #[test]
    fn releases_of_distributions_are_read() {
        assert_eq!(parse_release("6.18.0"), Some((6, 18)));
        assert_eq!(parse_release("5.15.0-91-generic"), Some((5, 15)));
        assert_eq!(parse_release("6.1-rc3"), Some((6, 1)));
        assert_eq!(parse_release("unknown"), None);
    }
}
