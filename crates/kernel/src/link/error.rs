//! What can go wrong, always with the object it went wrong for.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::netlink::Refusal;

#[derive(Debug)]
pub enum LinkError {
    /// The netlink socket itself.
    Socket(io::Error),
    /// The kernel said no.
    Refused { doing: String, refusal: Refusal },
    /// No link of that name in this namespace.
    NoSuchLink { doing: String, name: String },
    /// An interface does not carry packets yet, or its addresses are still being checked.
    NotReady { name: String, waited: Duration },
    /// The list kept changing under every attempt to read it.
    Restless { doing: &'static str },
}

impl LinkError {
    /// The kernel's error number, where there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            LinkError::Socket(error) => error.raw_os_error(),
            LinkError::Refused { refusal, .. } => refusal.errno(),
            LinkError::NoSuchLink { .. } => Some(libc::ENODEV),
            LinkError::NotReady { .. } | LinkError::Restless { .. } => None,
        }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::Socket(error) => write!(f, "opening an rtnetlink socket: {error}"),
            LinkError::Refused { doing, refusal } => write!(f, "{doing}: {refusal}"),
            LinkError::NoSuchLink { doing, name } => {
                write!(f, "{doing}: there is no interface {name} in this network namespace")
            }
            LinkError::NotReady { name, waited } => {
                write!(f, "{name} carries no packets after {waited:?}; is its other end up?")
            }
            LinkError::Restless { doing } => {
                write!(f, "{doing}: the kernel's list changed during each of several attempts")
            }
        }
    }
}

impl std::error::Error for LinkError {}
