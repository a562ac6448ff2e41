//! TCP and SCTP connections from a chosen source address, with a deadline: what `std` cannot do together.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};

/// Connect by TCP from the namespace the calling thread is in.
pub(super) fn dial(source: Option<IpAddr>, to: SocketAddr, deadline: Instant) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let stream = connected(socket_with(family, SocketType::STREAM, flags, None)?, source, to, deadline)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The same by SCTP, whose streams are read and written as those of TCP are.
pub(super) fn dial_sctp(source: Option<IpAddr>, to: SocketAddr, deadline: Instant) -> io::Result<TcpStream> {
    connected(kernel::sctp::socket(to)?, source, to, deadline)
}

fn connected(
    socket: OwnedFd,
    source: Option<IpAddr>,
    to: SocketAddr,
    deadline: Instant,
) -> io::Result<TcpStream> {
    if let Some(source) = source {
        bind(&socket, &SocketAddr::new(source, 0))?;
    }
    match connect(&socket, &to) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            wait(&socket, deadline)?;
            sockopt::socket_error(&socket)??;
        }
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// The time that is left, or the error that none is.
pub(super) fn left(deadline: Instant) -> io::Result<Duration> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

/// `source` with `port`, or any address of the family of `to`.
pub(super) fn source_like(source: Option<IpAddr>, port: u16, to: SocketAddr) -> SocketAddr {
    let any = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::new(source.unwrap_or(any), port)
}

fn wait(socket: &impl std::os::fd::AsFd, deadline: Instant) -> io::Result<()> {
    loop {
        let timeout = Timespec::try_from(left(deadline)?).map_err(io::Error::other)?;
        let mut waiting = [PollFd::new(socket, PollFlags::OUT)];
        match poll(&mut waiting, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
