//! The legacy tables as the kernel gives them, without a program.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::Table;
use super::look::legacy_tables;

// `IPT_SO_GET_INFO` and `IPT_SO_GET_ENTRIES` (linux/netfilter_ipv4/ip_tables.h); those of IPv6 are the same.
const GET_INFO: libc::c_int = 64;
const GET_ENTRIES: libc::c_int = 65;
/// How often a table is read again because it was changed meanwhile.
const ATTEMPTS: usize = 10;

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

/// The head of `struct ipt_get_entries`, whose entries begin where a 64-bit number may.
#[repr(C)]
struct EntriesHead {
    name: [u8; 32],
    size: libc::c_uint,
    entries: [u64; 0],
}

/// How large a table is: each rule and chain counts in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) entries: u32,
    pub(super) bytes: u32,
}

/// A way to ask about one family's tables, of the namespace in which it was opened.
#[derive(Debug)]
pub(super) struct Socket {
    socket: OwnedFd,
    level: libc::c_int,
}

impl Socket {
    /// Any socket of the address family will do; this kind needs no capability besides that to look at tables.
    pub(super) fn open(is_ipv6: bool) -> io::Result<Socket> {
        let (domain, level) = match is_ipv6 {
            true => (libc::AF_INET6, libc::IPPROTO_IPV6),
            false => (libc::AF_INET, libc::IPPROTO_IP),
        };
        // SAFETY: plain system call; a non-negative result is a descriptor that nothing else owns.
        let socket = unsafe {
            match libc::socket(domain, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) {
                raw if raw < 0 => return Err(io::Error::last_os_error()),
                raw => OwnedFd::from_raw_fd(raw),
            }
        };
        Ok(Socket { socket, level })
    }

    pub(super) fn size(&self, table: Table) -> io::Result<Size> {
        let mut info = Info { name: padded(table), ..Info::default() };
        let mut length = size_of::<Info>() as libc::socklen_t;
        // SAFETY: the kernel reads the name from, and writes at most `length` bytes to, a live value of that size in
        // which every pattern of bits is valid.
        let result = unsafe {
            let into = std::ptr::from_mut(&mut info).cast();
            libc::getsockopt(self.socket.as_raw_fd(), self.level, GET_INFO, into, &mut length)
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Size { entries: info.entries, bytes: info.size })
    }

    /// All entries of a table; `None` if it was changed meanwhile.
    fn entries(&self, table: Table) -> io::Result<Option<Vec<u8>>> {
        let size = self.size(table)?.bytes;
        let head = size_of::<EntriesHead>();
        let mut buffer = vec![0; head + size as usize];
        let name = padded(table);
        buffer[..name.len()].copy_from_slice(&name);
        buffer[name.len()..name.len() + size_of_val(&size)].copy_from_slice(&size.to_ne_bytes());
        let mut length = buffer.len() as libc::socklen_t;
        // SAFETY: the kernel reads the head from, and writes at most `length` bytes to, a live buffer of that length.
        let result = unsafe {
            let into = buffer.as_mut_ptr().cast();
            libc::getsockopt(self.socket.as_raw_fd(), self.level, GET_ENTRIES, into, &mut length)
        };
        if result < 0 {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::EAGAIN) { Ok(None) } else { Err(error) };
        }
        Ok(Some(buffer.split_off(head)))
    }
}

/// Whether a chain is in a legacy table. Looking loads no table, and no other namespace than the calling thread's is
/// looked at.
pub fn legacy_has_chain(is_ipv6: bool, table: Table, chain: &str) -> io::Result<bool> {
    if !legacy_tables(is_ipv6).iter().any(|name| name == table.name()) {
        return Ok(false);
    }
    let socket = Socket::open(is_ipv6)?;
    // A chain begins with an entry that holds its name; jumps to it name a place instead.
    let name = [b"\0", chain.as_bytes(), b"\0"].concat();
    for _ in 0..ATTEMPTS {
        if let Some(entries) = socket.entries(table)? {
            return Ok(entries.windows(name.len()).any(|window| window == name));
        }
    }
    Err(io::Error::other("the table was changed while it was read"))
}

fn padded(table: Table) -> [u8; 32] {
    let mut name = [0; 32];
    for (to, from) in name.iter_mut().zip(table.name().bytes()) {
        *to = from;
    }
    name
}
