//! The event loop's end: opens the ports of services, answers there, and closes them.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Instant;

use cluster::SharedAllowance;
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
    /// A tenant may have ports opened and closed all the time.
    told: Told,
    /// What is wrong has shares of its own.
    told_wrong: Told,
}

struct Wanted {
    port: u16,
    endpoints: Rc<Cell<usize>>,
}

/// Lines about services, of which each has a share.
#[derive(Default)]
struct Told {
    allowance: SharedAllowance,
    omitted: u64,
}

impl Told {
    /// How many lines were left out before this one; `None` if it is left out, too.
    fn may_tell(&mut self, service: &ServiceKey) -> Option<u64> {
        if self.allowance.take(service, Instant::now()) {
            return Some(std::mem::take(&mut self.omitted));
        }
        self.omitted += 1;
        None
    }
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
            told: Told::default(),
            told_wrong: Told::default(),
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
            if let Some(omitted) = self.told.may_tell(&name.1) {
                tracing::info!(
                    service = %name.1, address = %at, omitted, "Closed the health check port of a service"
                );
            }
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
                    if let Some(omitted) = self.told.may_tell(&name.1) {
                        tracing::info!(
                            service = %name.1, address = %at, omitted, "Opened the health check port of a service"
                        );
                    }
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
        let is_news = self.refused.insert((name.clone(), at), why.clone()).is_none_or(|before| before != why);
        if is_news && let Some(omitted) = self.told_wrong.may_tell(&name.1) {
            tracing::error!(
                service = %name.1, address = %at, %error, omitted,
                "Failed to open the health check port of a service; load balancers may consider this node unhealthy. \
                 Stop the process that holds the port; retrying every {} s", BIND_RETRY.as_secs()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use telemetry::logging::capture::heard;

    use super::*;

    /// As a service does whose policy changes between Local and Cluster.
    #[test]
    fn a_service_that_comes_and_goes_does_not_fill_the_log() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let surroundings = Surroundings {
            node: Rc::default(),
            health: Health::new(Duration::ZERO),
            recorder: Recorder::nowhere(),
        };
        // A free one.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let check = |name: &str, check| CheckUpdate::Check(Family::V4, name.into(), check);
        let toggle = async || {
            let mut ports = Ports::new(surroundings);
            let localhost = vec![Ipv4Addr::LOCALHOST.into()];
            ports.follow(vec![CheckUpdate::Addresses(Family::V4, localhost)]).await;
            for name in [["loud/web"; 100].as_slice(), &["quiet/web"]].concat() {
                ports.follow(vec![check(name, Some(Check { port, endpoints: 1 }))]).await;
                assert_eq!(ports.open.len(), 1);
                ports.follow(vec![check(name, None)]).await;
                assert!(ports.open.is_empty());
            }
        };
        let (_, log) = heard(&["v=2"], || tokio::task::LocalSet::new().block_on(&runtime, toggle()));
        assert!(log.lines().count() < 10, "{log}");
        assert!(log.contains("Opened the health check port of a service\" service=\"quiet/web\""), "{log}");
    }
}
