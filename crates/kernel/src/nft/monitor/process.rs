//! Who made a commit, as the kernel tells at its end.

use std::fmt;

use super::super::decode;
use super::super::sys::*;
use crate::netlink::Message;

/// The thread that sent a transaction.
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
    Some(Process { pid: u32::from_be_bytes(*pid), name: String::from_utf8_lossy(name).into_owned() })
}
