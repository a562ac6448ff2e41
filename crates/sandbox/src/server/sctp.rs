//! A listening SCTP socket. Its connections are read and written as those of TCP are.

use std::net::{SocketAddr, TcpListener};

/// As many as `std` lets wait for a TCP server.
const BACKLOG: i32 = 128;

pub(super) fn listen(at: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = kernel::sctp::socket(at)?;
    rustix::net::bind(&socket, &at)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}
