//! Where clients come in: a listener or a socket of datagrams, and how it tells which service they mean.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use model::{Family, Pool, Protocol};
use rustix::io::Errno;

use crate::directory::Directory;
use crate::port::Port;
use crate::sockets;

#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) socket: OwnedFd,
    pub(crate) protocol: Protocol,
    pub(crate) family: Family,
    /// The endpoints that redirected clients are led to.
    pub(crate) pool: Pool,
    pub(crate) means: Means,
    /// Connections that are likely to wait when one does.
    pub(crate) expected: AtomicUsize,
}

/// A service port, and the endpoints that a client is led to, if there are any.
pub(crate) type Meant = (Arc<Port>, Option<Pool>);

/// Which service the clients of a front mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// The one that had their address before the rules redirected them to this one.
    Original(SocketAddr),
    /// The one with this node port, at this address.
    NodePort(SocketAddr),
}

impl Front {
    pub(crate) fn open(protocol: Protocol, pool: Pool, means: Means) -> std::io::Result<Front> {
        let (Means::Original(at) | Means::NodePort(at)) = means;
        let is_shared = matches!(means, Means::Original(_));
        let socket = match protocol {
            Protocol::Udp => sockets::datagrams(at, is_shared)?,
            Protocol::Tcp | Protocol::Sctp => sockets::listener(at, is_shared)?,
        };
        Ok(Front {
            socket,
            protocol,
            family: Family::of(at.ip()),
            pool,
            means,
            expected: AtomicUsize::new(0),
        })
    }

    /// Where it listens.
    pub(crate) fn at(&self) -> SocketAddr {
        let (Means::Original(at) | Means::NodePort(at)) = self.means;
        at
    }

    /// The address that the client of an accepted connection called.
    pub(crate) fn called(&self, client: &OwnedFd) -> Result<SocketAddr, Errno> {
        match self.means {
            Means::Original(_) => sockets::original_destination(client, self.family),
            Means::NodePort(at) => Ok(at),
        }
    }

    /// The service that the client of an accepted connection means, and the endpoints it may be led to.
    pub(crate) fn find(&self, directory: &Directory, client: &OwnedFd) -> Result<Option<Meant>, Errno> {
        match self.means {
            Means::Original(_) => {
                let at = self.called(client)?;
                Ok(directory.find(self.protocol, at).map(|port| (port, Some(self.pool))))
            }
            Means::NodePort(at) => Ok(directory.find_node_port(self.family, self.protocol, at.port())),
        }
    }
}
