//! What can go wrong, apart from single commands, whose failures [`super::Failure`] tells.

use std::fmt;
use std::io;

use crate::netlink::Refusal;

#[derive(Debug)]
pub enum Error {
    /// The kernel has no IPVS, and could not load it.
    NotAvailable,
    NotPermitted,
    /// The netlink socket itself.
    Socket(io::Error),
    /// The kernel said no.
    Refused {
        doing: String,
        refusal: Refusal,
    },
    /// Answers did not arrive: commands may have been carried out, or not. List what is there, and repeat the rest.
    Unanswered {
        doing: String,
    },
    /// The list kept changing under every attempt to read it.
    Restless {
        doing: String,
    },
}

impl Error {
    pub(super) fn from_refusal(doing: impl Into<String>, refusal: Refusal) -> Error {
        match refusal.errno() {
            Some(libc::EPERM) => Error::NotPermitted,
            Some(libc::ENOBUFS) => Error::Unanswered { doing: doing.into() },
            _ => Error::Refused { doing: doing.into(), refusal },
        }
    }

    /// The kernel's error number, where there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::NotAvailable => Some(libc::ENOENT),
            Error::NotPermitted => Some(libc::EPERM),
            Error::Socket(error) => error.raw_os_error(),
            Error::Refused { refusal, .. } => refusal.errno(),
            Error::Unanswered { .. } => Some(libc::ENOBUFS),
            Error::Restless { .. } => None,
        }
    }

    /// Whether the same may succeed when it is tried again.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Unanswered { .. } | Error::Restless { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotAvailable => f.write_str("the kernel has no IPVS; load module ip_vs (CONFIG_IP_VS)"),
            Error::NotPermitted => f.write_str("IPVS may not be read or changed: CAP_NET_ADMIN is missing"),
            Error::Socket(error) => write!(f, "opening a generic netlink socket: {error}"),
            Error::Refused { doing, refusal } => write!(f, "{doing}: {refusal}"),
            Error::Unanswered { doing } => write!(f, "{doing}: the kernel's answers were lost"),
            Error::Restless { doing } => {
                write!(f, "{doing}: the kernel's list changed during each of several attempts")
            }
        }
    }
}

impl std::error::Error for Error {}
