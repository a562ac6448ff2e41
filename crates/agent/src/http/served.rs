//! One server with its address: bound at once or with retries, and rebound when the address changes.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use cluster::apiserver::Recorder;
use config::Options;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::role::{BindError, Role};
use web::listener::{Scope, listen};
use web::router::Router;
use web::seats::Seats;
use web::server::{self, Pages};

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

    /// Answer from now on, or as soon as the address can be bound; where this served before, until then.
    pub(super) fn start(&mut self, recorder: &Recorder) {
        let before = self.task.take();
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
            drop(before);
            server::serve(listener, pages, seats).await;
        });
        self.task = Some(task);
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Whether other options mean another address, and which one.
    pub(super) fn moves(&self, options: &Options) -> Option<Option<SocketAddr>> {
        let next = self.role.address(options);
        (next != self.address).then_some(next)
    }

    /// Free the address for a server that waits for it.
    pub(super) async fn let_go(&mut self) {
        if let Some(task) = self.task.take() {
            task.end().await;
        }
    }

    /// Take the next address, while the present one is served. Not having it is an error only where it is asked for.
    pub(super) fn claim_next(&mut self, options: &Options) -> Result<(), BindError> {
        let Some(Some(address)) = self.moves(options) else { return Ok(()) };
        match listen(address, Scope::Both) {
            Ok(listener) => self.claimed = Some(listener),
            Err(source) if options.bind_address_hard_fail => {
                return Err(BindError { role: self.role, address, source });
            }
            // It is waited for.
            Err(_) => {}
        }
        Ok(())
    }

    /// Go on as before; also after [`let_go`](Served::let_go).
    pub(super) fn stay(&mut self, recorder: &Recorder) {
        self.claimed = None;
        if self.task.is_none() {
            self.start(recorder);
        }
    }

    pub(super) fn move_on(&mut self, options: &Options, recorder: &Recorder) {
        self.node.clone_from(&options.node_name);
        let Some(next) = self.moves(options) else { return };
        let named =
            |address: Option<SocketAddr>| address.map_or("nowhere".into(), |address| address.to_string());
        let (from, to, what) = (named(self.address), named(next), self.role.what());
        match next.is_none() || self.claimed.is_some() {
            true => tracing::info!(%from, %to, "Moving the {what} to a new address"),
            false => {
                tracing::warn!(%from, %to, "Cannot bind the new address of the {what} yet; keeping the old one and retrying")
            }
        }
        self.address = next;
        self.start(recorder);
    }
}

/// A task that ends when this is dropped.
pub(super) struct Running(JoinHandle<()>);

impl Running {
    pub(super) fn spawn(task: impl Future<Output = ()> + 'static) -> Running {
        Running(tokio::task::spawn_local(task))
    }

    /// End it, and wait until all it held is free.
    pub(super) async fn end(mut self) {
        self.0.abort();
        // That it was aborted is no news.
        let _ = (&mut self.0).await;
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
                    tracing::info!(%address, "Serving the {} now", role.what());
                }
                return listener;
            }
            Err(error) => {
                has_failed = true;
                refused(&error);
                tracing::error!(
                    %address, %error,
                    "Failed to serve the {}; {}; retrying every {} s",
                    role.what(), role.remedy(&error), BIND_RETRY.as_secs()
                );
            }
        }
        tokio::time::sleep(BIND_RETRY).await;
    }
}
