//! The right to make namespaces and to configure them: as root, or as root of a user namespace of our own.

use std::ffi::CStr;
use std::fmt;
use std::io::{self, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::Namespace;

const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_SYS_ADMIN: u64 = 1 << 21;

/// Where the right comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    Root,
    /// The process is now root of its own user namespace, and an ordinary user outside it.
    UserNamespace,
}

/// Neither way is open, with the reason in one line.
#[derive(Clone, Debug)]
pub struct Denied(String);

/// Make sure that this process may make network namespaces, entering a user namespace if it must.
///
/// The second way works only while the process has a single thread: call it first thing in `main`.
pub fn acquire() -> Result<Privilege, Denied> {
    let privilege = if capable() {
        Privilege::Root
    } else {
        unshare_user().map_err(|e| match e.raw_os_error() {
            Some(libc::EINVAL) => Denied("a user namespace cannot be entered with several threads".into()),
            _ => Denied(format!("not root, and this machine refuses user namespaces: {e}")),
        })?;
        Privilege::UserNamespace
    };
    // Holding the capability is not yet the permission: seccomp and LSM rules of containers have a say.
    Namespace::new().map_err(|e| Denied(e.to_string()))?;
    Ok(privilege)
}

/// Let `command` start as root of a user namespace of its own, whatever number of threads we have.
pub fn enter_user_namespace(command: &mut Command) {
    // SAFETY: `unshare_user` neither allocates nor locks; it makes only async-signal-safe calls.
    unsafe { command.pre_exec(unshare_user) };
}

/// Whether the calling thread holds what namespaces need, in the user namespace it is in.
pub(super) fn capable() -> bool {
    let needed = CAP_NET_ADMIN | CAP_SYS_ADMIN;
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).is_some_and(|c| c & needed == needed)
}

/// Become root of a new user namespace in which our user and group are the only ones.
fn unshare_user() -> io::Result<()> {
    // SAFETY: these calls take no pointers and cannot fail.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: plain system calls without pointers. A process that has just changed its user (`Command::uid`)
    // is not dumpable, and /proc/self/uid_map would then belong to another user.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
        if libc::unshare(libc::CLONE_NEWUSER) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    write_map(c"/proc/self/uid_map", uid)?;
    // The kernel wants setgroups given up before an unprivileged process may map its group.
    write_once(c"/proc/self/setgroups", b"deny")?;
    write_map(c"/proc/self/gid_map", gid)
}

fn write_map(path: &CStr, outside: u32) -> io::Result<()> {
    let mut line = [0u8; 32];
    let mut rest = &mut line[..];
    writeln!(rest, "0 {outside} 1")?;
    let unused = rest.len();
    write_once(path, line.get(..32 - unused).unwrap_or_default())
}

/// One `write` call, as these files demand, without touching the heap.
fn write_once(path: &CStr, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the path is NUL-terminated, pointer and length describe a live slice, and the descriptor
    // is owned (and closed) here only.
    unsafe {
        let raw = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        let _close = OwnedFd::from_raw_fd(raw);
        match libc::write(raw, bytes.as_ptr().cast(), bytes.len()) {
            n if n < 0 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

impl Denied {
    pub(super) fn new(why: String) -> Denied {
        Denied(why)
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Denied {}
