//! Child processes that do not outlive their parent, signals to single processes, and limits of the own one.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The signals a parent has a use for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Hangup,
    Interrupt,
    Terminate,
    Kill,
}

impl Signal {
    fn number(self) -> libc::c_int {
        match self {
            Signal::Hangup => libc::SIGHUP,
            Signal::Interrupt => libc::SIGINT,
            Signal::Terminate => libc::SIGTERM,
            Signal::Kill => libc::SIGKILL,
        }
    }
}

/// Ticks per second, the unit of times in `/proc`.
pub fn clock_ticks_per_second() -> u64 {
    known_to_libc(libc::_SC_CLK_TCK, 100)
}

/// The unit of memory in `/proc`.
pub fn page_size() -> u64 {
    known_to_libc(libc::_SC_PAGESIZE, 4096)
}

/// What the C library was told when the process started, so that no system call is made. rustix opens a file for it on
/// kernels before 6.4, by a call that our seccomp profile refuses, and panics then.
fn known_to_libc(name: libc::c_int, usual: u64) -> u64 {
    // SAFETY: takes no pointers.
    u64::try_from(unsafe { libc::sysconf(name) }).unwrap_or(usual)
}

/// How many files this process may open.
pub fn open_files() -> io::Result<u64> {
    file_limit().map(|limit| limit.rlim_cur)
}

fn file_limit() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes one `rlimit` to the pointer, which points to one that lives on.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } {
        0 => Ok(limit),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Let this process open as many files as it could ask for; the limit at the start is often a thousand.
pub fn raise_open_files() -> io::Result<()> {
    let mut limit = file_limit()?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the call reads one `rlimit` from the pointer, which points to one that lives on.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Set how many files a process may open, however many it could ask for. More than before needs `CAP_SYS_RESOURCE`.
pub fn limit_open_files(process: u32, count: u64) -> io::Result<()> {
    let process = libc::pid_t::try_from(process).map_err(|_| io::ErrorKind::InvalidInput)?;
    let limit = libc::rlimit { rlim_cur: count, rlim_max: count };
    // SAFETY: the call reads one `rlimit` from the first pointer, which points to one that lives on; the second is null,
    // which asks for nothing to be written.
    match unsafe { libc::prlimit(process, libc::RLIMIT_NOFILE, &limit, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Let the kernel send `signal` to the command when the thread that starts it ends, however that happens.
///
/// Start the command from a thread that lives as long as the process: it is the thread that counts.
pub fn die_with_parent(command: &mut Command, signal: Signal) {
    let parent = std::process::id();
    // SAFETY: the closure makes two system calls without pointers, both async-signal-safe, and allocates
    // nothing (an error made from a number does not).
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, signal.number(), 0, 0, 0) < 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have died before the request was made; then no signal would ever come.
            if u32::try_from(libc::getppid()) != Ok(parent) {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}

/// Give the calling process mounts of its own. For a process of one thread, before it executes something else.
pub fn unshare_mounts() -> io::Result<()> {
    // SAFETY: takes no pointers; threads that share the file system's root and folder do not exist yet.
    match unsafe { libc::unshare(libc::CLONE_NEWNS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Send a signal to one process. A number is used again after its process was waited for: signal only
/// children that were not.
pub fn send_signal(process: u32, signal: Signal) -> io::Result<()> {
    // 0 and negative numbers would mean process groups.
    let process = i32::try_from(process).ok().filter(|process| *process > 0);
    let process = process.ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: takes no pointers.
    match unsafe { libc::kill(process, signal.number()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_signal_reaches_the_child() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        // Not SIGINT: a shell starts what runs in the background with that one ignored.
        send_signal(child.id(), Signal::Terminate).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    }

    #[test]
    fn groups_cannot_be_signalled() {
        assert!(send_signal(0, Signal::Hangup).is_err());
        assert!(send_signal(u32::MAX, Signal::Hangup).is_err());
    }

    #[test]
    fn a_child_ends_with_the_thread_that_started_it() {
        let start = || {
            let mut command = Command::new("sleep");
            command.arg("60");
            die_with_parent(&mut command, Signal::Kill);
            command.spawn().unwrap()
        };
        let mut child = std::thread::spawn(start).join().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }
}
