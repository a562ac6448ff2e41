//! Sockets as the forwarder needs them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use model::Family;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, listen, socket_with, sockopt,
};

/// Connections that wait to be accepted; the kernel cuts it to `net.core.somaxconn`.
pub(crate) const BACKLOG: i32 = 65_535;
/// A connection whose other side has silently gone is noticed after twelve minutes at most.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(300);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(75);
/// What a socket takes beyond what its other side has room for, where much comes.
const MOST_UNSENT: u32 = 256 * 1024;
/// What an endpoint may send before its connection has moved [`PROVEN`], and afterwards. The kernel would let a burst grow
/// it to megabytes, and a thousand clients that do not read would use up the memory of all TCP connections of the node.
const FIRST_ROOM: usize = 128 * 1024;
const ROOM: usize = 2 * 1024 * 1024;
pub(crate) const PROVEN: u64 = 8 * 1024 * 1024;
/// Room for datagrams that come while the thread does something else, and for answers: all services of a front share both.
const UDP_BUFFER: usize = 4 * 1024 * 1024;

fn family_of(at: SocketAddr) -> AddressFamily {
    match at {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
}

fn make(at: SocketAddr, kind: SocketType) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let protocol = if kind == SocketType::STREAM { ipproto::TCP } else { ipproto::UDP };
    socket_with(family_of(at), kind, flags, Some(protocol))
}

/// Accepted connections inherit what is set here.
pub(crate) fn listener(at: SocketAddr, is_shared: bool) -> io::Result<OwnedFd> {
    let socket = make(at, SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    share(&socket, at, is_shared)?;
    send_at_once(&socket)?;
    kernel::socket::set_most_unsent(&socket, MOST_UNSENT)?;
    keep_alive(&socket)?;
    keep_urgent(&socket)?;
    bind(&socket, &at)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

pub(crate) fn datagrams(at: SocketAddr, is_shared: bool) -> io::Result<OwnedFd> {
    let socket = make(at, SocketType::DGRAM)?;
    share(&socket, at, is_shared)?;
    // Beyond the node's limit where we may.
    if sockopt::set_socket_recv_buffer_size_force(&socket, UDP_BUFFER).is_err() {
        let _smaller_will_do = sockopt::set_socket_recv_buffer_size(&socket, UDP_BUFFER);
    }
    if sockopt::set_socket_send_buffer_size_force(&socket, UDP_BUFFER).is_err() {
        let _smaller_will_do = sockopt::set_socket_send_buffer_size(&socket, UDP_BUFFER);
    }
    bind(&socket, &at)?;
    Ok(socket)
}

/// Several threads listen at the address, and so may the next agent before the last has gone.
fn share(socket: &OwnedFd, at: SocketAddr, is_shared: bool) -> io::Result<()> {
    if at.is_ipv6() {
        sockopt::set_ipv6_v6only(socket, true)?;
        // An address that is local by a route alone does not count as one here.
        sockopt::set_ipv6_freebind(socket, is_shared)?;
    }
    if is_shared {
        sockopt::set_socket_reuseport(socket, true)?;
    }
    Ok(())
}

/// Small writes do not wait for the acknowledgement of earlier ones.
pub(crate) fn send_at_once(socket: impl AsFd) -> Result<(), Errno> {
    sockopt::set_tcp_nodelay(socket, true)
}

/// Urgent data is read as other data is, instead of being left out.
pub(crate) fn keep_urgent(socket: &OwnedFd) -> Result<(), Errno> {
    sockopt::set_socket_oobinline(socket, true)
}

/// Find out if the other side has silently gone.
pub(crate) fn keep_alive(socket: &OwnedFd) -> Result<(), Errno> {
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEP_ALIVE_AFTER)?;
    sockopt::set_tcp_keepintvl(socket, KEEP_ALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(socket, 5)
}

/// Begin to connect; the outcome is for later. The mark keeps our own connections from being led to us again. What a short
/// connection does not need is set later: each call counts where there are many of these.
pub(crate) fn dial(at: SocketAddr, mark: u32) -> Result<OwnedFd, Errno> {
    let socket = make(at, SocketType::STREAM)?;
    set_mark(&socket, mark)?;
    match connect(&socket, &at) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

pub(crate) fn dial_datagrams(at: SocketAddr, mark: u32) -> Result<OwnedFd, Errno> {
    let socket = make(at, SocketType::DGRAM)?;
    set_mark(&socket, mark)?;
    connect(&socket, &at)?;
    Ok(socket)
}

/// For tests without rights there is no mark.
fn set_mark(socket: &OwnedFd, mark: u32) -> Result<(), Errno> {
    if mark == 0 {
        return Ok(());
    }
    kernel::socket::set_mark(socket, mark).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Bound what the kernel takes before the other side has room for it.
pub(crate) fn bound_unsent(socket: impl AsFd) {
    let _it_takes_more = kernel::socket::set_most_unsent(socket, MOST_UNSENT);
}

/// Bound what the kernel receives before anybody reads it.
pub(crate) fn bound_room(socket: impl AsFd, is_proven: bool) {
    let room = if is_proven { ROOM } else { FIRST_ROOM };
    // Beyond the node's limit where we may.
    if sockopt::set_socket_recv_buffer_size_force(&socket, room).is_err() {
        let _smaller_will_do = sockopt::set_socket_recv_buffer_size(&socket, room);
    }
}

pub(crate) fn reset_on_close(socket: impl AsFd) {
    let _ends_in_order = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}

/// Where the client of a redirected connection wanted to go.
pub(crate) fn original_destination(socket: impl AsFd, family: Family) -> Result<SocketAddr, Errno> {
    match family {
        Family::V4 => sockopt::ip_original_dst(socket).map(SocketAddr::V4),
        Family::V6 => sockopt::ipv6_original_dst(socket).map(SocketAddr::V6),
    }
}

/// For messages to clients about endpoints that refuse; needs `CAP_NET_RAW`.
pub(crate) fn icmp(family: Family) -> Result<OwnedFd, Errno> {
    let (family, protocol) = match family {
        Family::V4 => (AddressFamily::INET, ipproto::ICMP),
        Family::V6 => (AddressFamily::INET6, ipproto::ICMPV6),
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::RAW, flags, Some(protocol))?;
    if family == AddressFamily::INET6 {
        sockopt::set_ipv6_freebind(&socket, true)?;
    }
    Ok(socket)
}
