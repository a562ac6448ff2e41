//! SCTP sockets in the style of TCP: one association each, read and written as a stream.
//!
//! Whether the kernel has SCTP is only known by asking for a socket; the module is loaded by that.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A socket that does not block, for addresses of the family of `like`.
pub fn socket(like: SocketAddr) -> io::Result<OwnedFd> {
    let family = if like.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes no pointers.
    let fd = unsafe { libc::socket(family, kind, libc::IPPROTO_SCTP) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    report_unreachable(&socket, like)?;
    Ok(socket)
}

/// Let "port unreachable" end a connection attempt. TCP does that unasked; SCTP tries again for minutes.
fn report_unreachable(socket: &OwnedFd, like: SocketAddr) -> io::Result<()> {
    let (level, name) = match like {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_RECVERR),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
    };
    let on: libc::c_int = 1;
    let length = libc::socklen_t::try_from(size_of_val(&on)).map_err(io::Error::other)?;
    // SAFETY: the pointer is to `length` bytes that live longer than the call.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const on).cast(), length) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
