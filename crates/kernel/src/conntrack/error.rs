//! What can go wrong with the flow table.

use std::fmt;
use std::io;

use crate::netlink::Refusal;

#[derive(Debug)]
pub enum ConntrackError {
    Socket(io::Error),
    /// The kernel cannot list flows.
    Absent,
    NotPermitted,
    Refused {
        doing: &'static str,
        refusal: Refusal,
    },
}

impl ConntrackError {
    /// `doing` something that every kernel with ctnetlink understands.
    pub(super) fn from_refusal(doing: &'static str, refusal: Refusal) -> ConntrackError {
        match refusal.errno() {
            Some(libc::EPERM) => ConntrackError::NotPermitted,
            _ => ConntrackError::Refused { doing, refusal },
        }
    }
}

impl fmt::Display for ConntrackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConntrackError::Socket(error) => write!(f, "opening a netfilter socket: {error}"),
            ConntrackError::Absent => f.write_str(
                "the kernel cannot list its flows: load the module nf_conntrack_netlink (CONFIG_NF_CT_NETLINK); \
                 without it, stale UDP flows end only when they time out",
            ),
            ConntrackError::NotPermitted => {
                f.write_str("the flow table may not be read or changed: CAP_NET_ADMIN is missing")
            }
            ConntrackError::Refused { doing, refusal } => write!(f, "{doing}: {refusal}"),
        }
    }
}

impl std::error::Error for ConntrackError {}
