//! Where a server listens.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use model::Family;
use tokio::net::{TcpListener, TcpSocket};

/// Connections that wait to be accepted; more are refused by the kernel.
const BACKLOG: u32 = 4096;
const SEND_BUFFER: u32 = 128 * 1024;
const RECEIVE_BUFFER: u32 = 16 * 1024;

/// What one listening socket covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Just this address; an unspecified one means all of its family.
    Family,
    /// An unspecified address means all addresses of both families, as it does for kube-proxy.
    Both,
}

pub fn listen(address: SocketAddr, scope: Scope) -> io::Result<TcpListener> {
    if scope == Scope::Both && address.ip().is_unspecified() {
        let everywhere = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port());
        return match open(everywhere, Scope::Both) {
            Err(error) if lacks_ipv6(&error) => {
                open(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port()), Scope::Family)
            }
            listener => listener,
        };
    }
    open(address, Scope::Family)
}

/// The kernel was built or started without IPv6, or has it turned off.
pub fn lacks_ipv6(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL].contains(&Errno::from_io_error(error).unwrap_or(Errno::INVAL))
}

/// All addresses of a family.
pub fn unspecified(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn open(address: SocketAddr, scope: Scope) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    // Inherited by each connection; the kernel's memory is to have an end as well.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    if address.is_ipv6() {
        rustix::net::sockopt::set_ipv6_v6only(&socket, scope == Scope::Family)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
