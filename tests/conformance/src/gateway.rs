//! A way from one namespace's loopback to another's: what lets agents of several nodes share one control plane.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use sandbox::Namespace;

const APISERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 6443);

/// Connections end with their ends; dropping it only takes no more of them.
pub(crate) struct Gateway {
    near: Namespace,
    closing: Arc<AtomicBool>,
    doorman: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Connections to the apiserver's port in `near` go to the apiserver in `far`.
    pub(crate) fn open(near: &Namespace, far: &Namespace) -> Gateway {
        let listener = near.run(|| TcpListener::bind(APISERVER)).unwrap();
        let closing = Arc::new(AtomicBool::new(false));
        let (ended, far) = (closing.clone(), far.try_clone().unwrap());
        let doorman = std::thread::spawn(move || {
            for caller in listener.incoming() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                // A refusal ends the caller's connection, as it would without us in between.
                if let (Ok(caller), Ok(server)) = (caller, far.run(|| TcpStream::connect(APISERVER))) {
                    join(&caller, &server).unwrap();
                }
            }
        });
        Gateway { near: near.try_clone().unwrap(), closing, doorman: Some(doorman) }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        // Only a caller wakes the doorman.
        let woken = self.near.run(|| TcpStream::connect(APISERVER));
        if let (Ok(_), Some(doorman)) = (woken, self.doorman.take()) {
            let _ = doorman.join();
        }
    }
}

fn join(caller: &TcpStream, server: &TcpStream) -> io::Result<()> {
    for (from, to) in [(caller, server), (server, caller)] {
        let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
        from.set_nodelay(true)?;
        std::thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
    Ok(())
}
