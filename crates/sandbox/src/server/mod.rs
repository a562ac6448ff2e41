//! Servers that say who they are and whom they see, so that a test can tell where its packet went.
//!
//! Each has one thread, waiting on all its sockets; hundreds in a process are fine.

mod sctp;
mod tcp;
mod udp;

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};

use crate::{Namespace, SandboxError};

/// A running server; dropping it closes its sockets and connections.
#[derive(Debug)]
pub struct Server {
    at: SocketAddr,
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and its owner share.
#[derive(Debug)]
struct Control {
    stop: OwnedFd,
    answered: AtomicU64,
}

impl Server {
    /// Listen for TCP inside `namespace`.
    ///
    /// A request that begins with `GET` gets an HTTP answer whose body is `NAME CLIENT_IP`, and the connection
    /// ends. The line `who` gets the same text as a line, every other line is echoed, and the connection stays
    /// open. `name` has no spaces.
    pub fn tcp(namespace: &Namespace, name: &str, at: SocketAddr) -> Result<Server, SandboxError> {
        start(namespace, name, at, TcpListener::bind, TcpListener::local_addr, tcp::serve)
    }

    /// The same for SCTP; an error where the kernel has none.
    pub fn sctp(namespace: &Namespace, name: &str, at: SocketAddr) -> Result<Server, SandboxError> {
        start(namespace, name, at, sctp::listen, TcpListener::local_addr, tcp::serve)
    }

    /// Listen for UDP inside `namespace` and answer each datagram with `NAME CLIENT_IP CLIENT_PORT`.
    pub fn udp(namespace: &Namespace, name: &str, at: SocketAddr) -> Result<Server, SandboxError> {
        start(namespace, name, at, UdpSocket::bind, UdpSocket::local_addr, udp::serve)
    }

    /// Where it listens; the port is the real one if it was asked for as 0.
    pub fn address(&self) -> SocketAddr {
        self.at
    }

    /// How many requests it has answered (echoed lines do not count).
    pub fn answered(&self) -> u64 {
        self.control.answered.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Writing 1 to an eventfd with a single writer cannot fail.
        let _ = rustix::io::write(&self.control.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Control {
    fn stop(&self) -> BorrowedFd<'_> {
        self.stop.as_fd()
    }

    fn count(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }
}

fn start<S: Send + 'static>(
    namespace: &Namespace,
    name: &str,
    at: SocketAddr,
    bind: impl FnOnce(SocketAddr) -> std::io::Result<S> + Send,
    address: impl FnOnce(&S) -> std::io::Result<SocketAddr>,
    serve: impl FnOnce(&S, &str, &Control) + Send + 'static,
) -> Result<Server, SandboxError> {
    let part = || format!("server {name}");
    let listen = |source| SandboxError::Listen { name: name.to_owned(), at, source };
    let socket = namespace
        .try_run(|| bind(at))
        .map_err(|source| SandboxError::Namespace { part: part(), source })?
        .map_err(listen)?;
    let at = address(&socket).map_err(listen)?;
    let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|e| listen(e.into()))?;
    let control = Arc::new(Control { stop, answered: AtomicU64::new(0) });
    let (shared, own_name) = (Arc::clone(&control), name.to_owned());
    // The socket belongs to the namespace already; the thread need not.
    let builder = std::thread::Builder::new().name(part()).stack_size(128 * 1024);
    let thread = builder.spawn(move || serve(&socket, &own_name, &shared)).map_err(listen)?;
    Ok(Server { at, control, thread: Some(thread) })
}
