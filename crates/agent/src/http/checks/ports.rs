//! The event loop's end: opens the ports of services, answers there, and closes them.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use cluster::apiserver::Recorder;
use model::{Family, ServiceKey};

use super::{Check, CheckUpdate, Receiver, body};
use crate::events;
use crate::health::Health;
use crate::http::served::{BIND_RETRY, Running};
use web::listener::{Scope, lacks_ipv6, listen};
use web::router::Router;
use web::seats::Seats;
use web::server::{self, Pages};

/// Load balancers of all services together; see [`Seats`].
const SEATS: usize = 256;

/// What an answer looks at, and who hears of failures.
#[derive(Clone)]
pub(in crate::http) struct Surroundings {
    pub(in crate::http) node: Rc<RefCell<String>>,
    pub(in crate::http) health: Health,
    pub(in crate::http) recorder: Recorder,
}

/// Follow what the sync thread reports, for ever.
pub(in crate::http) async fn serve(mut changes: Receiver, surroundings: Surroundings) {
    let mut ports = Ports::new(surroundings);
    loop {
        let next = match ports.refused.is_empty() {
            true => changes.recv().await,
            false => match tokio::time::timeout(BIND_RETRY, changes.recv()).await {
                Ok(next) => next,
                Err(_) => Some(Vec::new()),
            },
        };
        match next {
            Some(changes) => ports.follow(changes).await,
            None => return,
        }
    }
}

/// A service in one family: each has ports and answers of its own.
type Name = (Family, ServiceKey);

struct Ports {
    surroundings: Surroundings,
    seats: Seats,
    addresses: [Vec<IpAddr>; 2],
    wanted: HashMap<Name, Wanted>,
    open: HashMap<Name, HashMap<SocketAddr, Running>>,
    /// What could not be opened, and why, so that it is said once.
    refused: HashMap<(Name, SocketAddr), String>,
}

struct Wanted {
    port: u16,
    endpoints: Rc<Cell<usize>>,
}

impl Ports {
    fn new(surroundings: Surroundings) -> Ports {
        Ports {
            surroundings,
            seats: Seats::new(SEATS),
            addresses: [Vec::new(), Vec::new()],
            wanted: HashMap::new(),
            open: HashMap::new(),
            refused: HashMap::new(),
        }
    }

    /// Take the changes in; try again, too, what failed before. Ports are closed first: another may want them.
    async fn follow(&mut self, changes: Vec<CheckUpdate>) {
        let mut moved: HashSet<Name> = self.refused.keys().map(|(name, _)| name.clone()).collect();
        for change in changes {
            match change {
                CheckUpdate::Check(family, service, check) => {
                    let name = (family, service);
                    self.want(&name, check);
                    moved.insert(name);
                }
                CheckUpdate::Addresses(family, addresses) => {
                    self.addresses[family.index()] = addresses;
                    moved.extend(self.wanted.keys().filter(|(of, _)| *of == family).cloned());
                }
            }
        }
        for name in &moved {
            for running in self.close(name) {
                running.end().await;
            }
        }
        moved.iter().for_each(|name| self.open(name));
    }

    fn want(&mut self, name: &Name, check: Option<Check>) {
        match (check, self.wanted.get_mut(name)) {
            (None, _) => drop(self.wanted.remove(name)),
            (Some(check), Some(wanted)) => {
                wanted.port = check.port;
                wanted.endpoints.set(check.endpoints);
            }
            (Some(Check { port, endpoints }), None) => {
                self.wanted.insert(name.clone(), Wanted { port, endpoints: Rc::new(Cell::new(endpoints)) });
            }
        }
    }

    /// Where a service is to be asked.
    fn places(&self, name: &Name) -> Vec<SocketAddr> {
        let Some(wanted) = self.wanted.get(name) else { return Vec::new() };
        self.addresses[name.0.index()].iter().map(|ip| SocketAddr::new(*ip, wanted.port)).collect()
    }

    /// Returns those that are to end.
    fn close(&mut self, name: &Name) -> Vec<Running> {
        let places = self.places(name);
        self.refused.retain(|(of, at), _| of != name || places.contains(at));
        let Some(open) = self.open.remove(name) else { return Vec::new() };
        let (stay, go): (HashMap<_, _>, HashMap<_, _>) =
            open.into_iter().partition(|(at, _)| places.contains(at));
        if !stay.is_empty() {
            self.open.insert(name.clone(), stay);
        }
        for at in go.keys() {
            tracing::info!(service = %name.1, address = %at, "Closed the health check port of a service");
        }
        go.into_values().collect()
    }

    fn open(&mut self, name: &Name) {
        for at in self.places(name) {
            if self.open.get(name).is_some_and(|open| open.contains_key(&at)) {
                continue;
            }
            match self.start(name, at) {
                Ok(running) => {
                    self.refused.remove(&(name.clone(), at));
                    tracing::info!(service = %name.1, address = %at, "Opened the health check port of a service");
                    self.open.entry(name.clone()).or_default().insert(at, running);
                }
                Err(error) if at.ip().is_unspecified() && lacks_ipv6(&error) => {}
                Err(error) => self.report(name, at, &error),
            }
        }
    }

    fn start(&self, name: &Name, at: SocketAddr) -> io::Result<Running> {
        let listener = listen(at, Scope::Family)?;
        let service = name.1.clone();
        let endpoints = self.wanted.get(name).map(|wanted| wanted.endpoints.clone()).unwrap_or_default();
        let health = self.surroundings.health.clone();
        let router = Router::default()
            .everywhere(move |_| body::answer(&service, endpoints.get(), health.report().is_live()));
        Ok(Running::spawn(server::serve(listener, Pages::new(router), self.seats.clone())))
    }

    fn report(&mut self, name: &Name, at: SocketAddr, error: &io::Error) {
        let event = events::check_not_served(&self.surroundings.node.borrow(), &name.1, at, error);
        self.surroundings.recorder.record(event);
        let why = error.to_string();
        if self.refused.insert((name.clone(), at), why.clone()).is_none_or(|before| before != why) {
            tracing::error!(
                service = %name.1, address = %at, %error,
                "Failed to open the health check port of a service; load balancers may consider this node unhealthy. \
                 Stop the process that holds the port; retrying every {} s", BIND_RETRY.as_secs()
            );
        }
    }
}
