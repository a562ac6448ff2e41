//! Who made a commit, as the kernel tells at its end.

use std::fmt;

use super::super::decode;
use super::super::sys::*;
use crate::netlink::Message;

/// The process that sent a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// The kernel's number of it, which is that of the initial PID namespace; inside a container it may have another.
    pub pid: u32,
    /// As `ps` shows it in `comm`: at most 15 bytes, and whatever the program likes.
    pub name: String,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name.escape_debug(), self.pid)
    }
}

/// Whose commit ends with this message, if it is the end of one.
pub(super) fn committer(message: &Message<'_>) -> Option<Process> {
    if message.kind != NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWGEN {
        return None;
    }
    let pid = decode::find(message, NFTA_GEN_PROC_PID)?.value.first_chunk::<4>()?;
    let name = decode::find(message, NFTA_GEN_PROC_NAME)?.value;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    Some(Process { pid: u32::from_be_bytes(*pid), name }.of_thread())
}

impl Process {
    /// The kernel names the thread. Its process is what people look for, if it can be found: the thread may be gone, and in
    /// another PID namespace its number may be somebody else's, which then has another name.
    fn of_thread(self) -> Process {
        let read = |pid: u32, file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
        let name_of = |pid| read(pid, "comm").map(|name| name.trim_end_matches('\n').to_owned());
        let process = || {
            let _same = name_of(self.pid).filter(|name| *name == self.name)?;
            let status = read(self.pid, "status")?;
            let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
            let pid = group.trim().parse().ok()?;
            Some(Process { pid, name: name_of(pid)? })
        };
        process().unwrap_or(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_reported_as_its_process() {
        // The number of the reading thread.
        let tid = || std::fs::read_link("/proc/thread-self").ok()?.file_name()?.to_str()?.parse().ok();
        let named = move |name: &str| Process { pid: tid().unwrap(), name: name.to_owned() };
        let thread = std::thread::Builder::new().name("some-thread".into());
        let (found, stranger) = thread
            .spawn(move || (named("some-thread").of_thread(), named("another").of_thread()))
            .and_then(|thread| thread.join().map_err(|_| std::io::ErrorKind::Other.into()))
            .unwrap();
        assert_eq!(found.pid, std::process::id());
        assert_ne!(found.name, "some-thread");
        assert_eq!(stranger.name, "another", "its number belongs to another thread here");
    }
}
