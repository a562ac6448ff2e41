//! One server with its address: bound at once or patiently, and bound anew when the address changes.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use cluster::apiserver::Recorder;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::listener::{Scope, listen};
use super::role::{BindError, Role};
use super::router::Router;
use super::seats::Seats;
use super::server::{self, Pages};
use crate::Options;

pub(super) const BIND_RETRY: Duration = Duration::from_secs(5);

pub(super) struct Served {
    role: Role,
    node: String,
    address: Option<SocketAddr>,
    /// Bound already, but not served.
    claimed: Option<TcpListener>,
    pub(super) pages: Pages,
    seats: Seats,
    task: Option<Running>,
}

impl Served {
    pub(super) fn new(role: Role, options: &Options) -> Served {
        Served {
            role,
            node: options.node_name.clone(),
            address: role.address(options),
            claimed: None,
            pages: Pages::new(Router::default()),
            seats: Seats::new(role.seats()),
            task: None,
        }
    }

    pub(super) fn claim(&mut self) -> Result<(), BindError> {
        let Some(address) = self.address else { return Ok(()) };
        let listener = listen(address, Scope::Both);
        self.claimed = Some(listener.map_err(|source| BindError { role: self.role, address, source })?);
        Ok(())
    }

    pub(super) fn start(&mut self, recorder: &Recorder) {
        let Some(address) = self.address else { return };
        let claimed = self.claimed.take();
        let (role, node, recorder) = (self.role, self.node.clone(), recorder.clone());
        let (pages, seats) = (self.pages.clone(), self.seats.clone());
        let task = Running::spawn(async move {
            let refused = |error: &io::Error| recorder.record(role.event(&node, address, error));
            let listener = match claimed {
                Some(listener) => listener,
                None => bind_patiently(role, address, refused).await,
            };
            server::serve(listener, pages, seats).await;
        });
        self.task = Some(task);
    }

    pub(super) fn reconfigure(&mut self, options: &Options, recorder: &Recorder) {
        let address = self.role.address(options);
        if address == self.address {
            return;
        }
        tracing::info!(from = ?self.address, to = ?address, "The {} are served elsewhere", self.role.what());
        self.stop();
        self.address = address;
        self.start(recorder);
    }

    /// Nobody new is let in; those who are in have their say.
    fn stop(&mut self) {
        self.claimed = None;
        self.task = None;
    }
}

/// A task that ends when this is dropped.
pub(super) struct Running(JoinHandle<()>);

impl Running {
    pub(super) fn spawn(task: impl Future<Output = ()> + 'static) -> Running {
        Running(tokio::task::spawn_local(task))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Bind, trying again for as long as it takes; `refused` hears of each failure.
async fn bind_patiently(role: Role, address: SocketAddr, refused: impl Fn(&io::Error)) -> TcpListener {
    let mut has_failed = false;
    loop {
        match listen(address, Scope::Both) {
            Ok(listener) => {
                if has_failed {
                    tracing::info!(%address, "The {} are served now", role.what());
                }
                return listener;
            }
            Err(error) => {
                has_failed = true;
                refused(&error);
                tracing::error!(
                    %address, %error,
                    "Cannot serve the {}: stop what holds the port or choose another {}; trying again every {} s",
                    role.what(), role.setting(), BIND_RETRY.as_secs()
                );
            }
        }
        tokio::time::sleep(BIND_RETRY).await;
    }
}
