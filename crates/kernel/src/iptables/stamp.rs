//! Whether tables were changed, asked of the kernel without a program.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::look::legacy_tables;
use super::{Stamp, Table, Variant};
use crate::nft::{Connection, Transport};

/// `IPT_SO_GET_INFO` and `IP6T_SO_GET_INFO` (linux/netfilter_ipv4/ip_tables.h).
const GET_INFO: libc::c_int = 64;

/// `struct ipt_getinfo`, which is `struct ip6t_getinfo` too.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Info {
    name: [u8; 32],
    valid_hooks: libc::c_uint,
    hook_entry: [libc::c_uint; 5],
    underflow: [libc::c_uint; 5],
    entries: libc::c_uint,
    size: libc::c_uint,
}

/// What stamps are made from, with a socket that is opened for the first and kept.
#[derive(Debug)]
pub(super) enum Watch {
    /// How many entries the tables have, and how large they are: each rule and chain counts in both.
    Legacy { is_ipv6: bool, socket: Option<OwnedFd>, loaded: [bool; 2] },
    /// The number of the last commit to nf_tables, whoever made it.
    Nft(Option<Connection>),
}

impl Watch {
    pub(super) fn new(variant: Variant, is_ipv6: bool) -> Watch {
        match variant {
            Variant::Legacy => Watch::Legacy { is_ipv6, socket: None, loaded: [false; 2] },
            Variant::Nft => Watch::Nft(None),
        }
    }

    pub(super) fn stamp(&mut self) -> Option<Stamp> {
        match self {
            Watch::Nft(connection) => {
                let kernel = match connection {
                    Some(kernel) => kernel,
                    None => connection.insert(Connection::open().ok()?),
                };
                Some(Stamp([kernel.generation().ok()?.into(), 0, 0, 0]))
            }
            Watch::Legacy { is_ipv6, socket, loaded } => {
                let socket = match socket {
                    Some(socket) => socket,
                    None => socket.insert(open(*is_ipv6).ok()?),
                };
                // A table that was loaded once stays.
                if loaded.contains(&false) {
                    let names = legacy_tables(*is_ipv6);
                    *loaded = Table::BOTH.map(|table| names.iter().any(|name| name == table.name()));
                }
                let mut numbers = [0; 4];
                for ((table, loaded), numbers) in
                    Table::BOTH.into_iter().zip(*loaded).zip(numbers.chunks_mut(2))
                {
                    if loaded {
                        numbers.copy_from_slice(&size(socket, *is_ipv6, table).ok()?);
                    }
                }
                Some(Stamp(numbers))
            }
        }
    }
}

/// Any socket of the address family will do; this kind needs no capability besides that to look at tables.
fn open(is_ipv6: bool) -> io::Result<OwnedFd> {
    let domain = if is_ipv6 { libc::AF_INET6 } else { libc::AF_INET };
    // SAFETY: plain system call; a non-negative result is a descriptor nobody else owns.
    unsafe {
        match libc::socket(domain, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) {
            raw if raw < 0 => Err(io::Error::last_os_error()),
            raw => Ok(OwnedFd::from_raw_fd(raw)),
        }
    }
}

/// The number of entries and of bytes.
fn size(socket: &OwnedFd, is_ipv6: bool, table: Table) -> io::Result<[u64; 2]> {
    let mut info = Info::default();
    for (to, from) in info.name.iter_mut().zip(table.name().bytes()) {
        *to = from;
    }
    let level = if is_ipv6 { libc::IPPROTO_IPV6 } else { libc::IPPROTO_IP };
    let mut length = size_of::<Info>() as libc::socklen_t;
    // SAFETY: the kernel reads the name from, and writes at most `length` bytes to, a live value of that size in
    // which every pattern of bits is valid.
    let result = unsafe {
        let into = std::ptr::from_mut(&mut info).cast();
        libc::getsockopt(socket.as_raw_fd(), level, GET_INFO, into, &mut length)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok([info.entries.into(), info.size.into()])
}
