//! Options of sockets that no safe wrapper offers.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Give every packet that the socket sends this mark. Needs `CAP_NET_ADMIN`.
pub fn set_mark(socket: impl AsFd, mark: u32) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_MARK, mark)
}

/// Let a TCP socket take no more than this that it cannot send yet. Connections inherit it from their listener.
pub fn set_most_unsent(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// How much a TCP socket holds that its other side has not acknowledged.
pub fn unacknowledged(socket: impl AsFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    let socket = socket.as_fd();
    // SAFETY: the descriptor is open for as long as it is borrowed; the call writes one `int` to the pointer, which points
    // to one that lives on.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) } {
        0 => Ok(u64::try_from(bytes).unwrap_or_default()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set(socket: impl AsFd, level: libc::c_int, option: libc::c_int, value: u32) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<u32>()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let socket = socket.as_fd();
    // SAFETY: the descriptor is open for as long as it is borrowed; the call reads `length` bytes from the pointer, which
    // points to a number of that size that lives on.
    let set = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(&value).cast(), length)
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
