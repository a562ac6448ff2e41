//! Everything the agent serves over HTTP: probes, metrics and the pages beside them, and the health checks of
//! services that load balancers ask for.
//!
//! All servers are one small hardened one ([`server`]); what they answer is pure wherever it can be. They run on the
//! single-threaded event loop: nothing here may block, or hold a lock for longer than a few loads and stores.

pub(crate) mod api;
mod api_bundle;
mod api_diff;
mod api_services;
mod api_status;
mod api_trace;
mod checks;
mod debug;
mod facts;
mod looking;
mod page;
mod pages;
mod probes;
pub(crate) mod profiles;
mod role;
mod served;
mod service_page;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::SystemTime;

use cluster::apiserver::Recorder;
use config::Options;

use crate::health::Health;
use crate::questions::Asker;
use role::Role;
use served::{Running, Served};
use telemetry::metrics::Metrics;

pub(crate) use api::interface_toward;
pub(crate) use checks::CheckReporter;
pub use role::BindError;

/// What the pages show.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) health: Health,
    pub(crate) metrics: Metrics,
    pub(crate) started: SystemTime,
    /// The command line.
    pub(crate) arguments: Vec<String>,
    pub(crate) sync_thread: Asker,
}

/// Every path that is served: by the probes, and beside the metrics.
#[cfg(test)]
pub(crate) fn paths(options: &Options, context: &Context) -> [Vec<&'static str>; 2] {
    [probes::router(context).all_paths(), pages::router(options, context).all_paths()]
}

/// The servers of an agent; they end when this is dropped.
pub(crate) struct Servers {
    context: Context,
    recorder: Recorder,
    probes: Served,
    pages: Served,
    /// The changes of service checks, until they are followed.
    changes: Option<checks::Receiver>,
    checks: Option<Running>,
    /// This node's name, for events and pages.
    node: Rc<RefCell<String>>,
}

impl Servers {
    /// Take the addresses, where failing to is to end the agent before it does anything.
    /// The second is for the sync thread.
    pub(crate) fn claim(options: &Options, context: Context) -> Result<(Servers, CheckReporter), BindError> {
        let mut probes = Served::new(Role::Probes, options);
        let mut pages = Served::new(Role::Pages, options);
        if options.bind_address_hard_fail {
            probes.claim()?;
            pages.claim()?;
        }
        let (reporter, changes) = checks::channel();
        let mut servers = Servers {
            context,
            recorder: Recorder::nowhere(),
            probes,
            pages,
            changes: Some(changes),
            checks: None,
            node: Rc::new(RefCell::new(options.node_name.clone())),
        };
        servers.write_pages(options);
        Ok((servers, reporter))
    }

    /// Answer from now on, or as soon as the addresses can be bound.
    pub(crate) fn start(&mut self, recorder: Recorder) {
        self.recorder = recorder;
        self.probes.start(&self.recorder);
        self.pages.start(&self.recorder);
        if let Some(changes) = self.changes.take() {
            let surroundings = checks::Surroundings {
                node: self.node.clone(),
                health: self.context.health.clone(),
                recorder: self.recorder.clone(),
            };
            self.checks = Some(Running::spawn(checks::serve(changes, surroundings)));
        }
    }

    /// Take the addresses of changed options, which [`follow`](Servers::follow) moves to. After an error all goes on as
    /// before.
    pub(crate) async fn claim_next(&mut self, options: &Options) -> Result<(), BindError> {
        self.make_way(options).await;
        let claimed = self.probes.claim_next(options).and_then(|()| self.pages.claim_next(options));
        claimed.inspect_err(|_| {
            self.probes.stay(&self.recorder);
            self.pages.stay(&self.recorder);
        })
    }

    /// Serve as changed options say. Only servers with a changed address are interrupted.
    pub(crate) fn follow(&mut self, options: &Options) {
        self.probes.move_on(options, &self.recorder);
        self.pages.move_on(options, &self.recorder);
        self.node.replace(options.node_name.clone());
        self.context.metrics.set_gates(&options.feature_gates);
        self.write_pages(options);
    }

    /// A port that one of ours holds is free only after that one has let go: no server is to wait for itself.
    async fn make_way(&mut self, options: &Options) {
        let port = |address: Option<SocketAddr>| address.map(|address| address.port());
        let wanted = [&self.probes, &self.pages].map(|served| served.moves(options).and_then(port));
        for served in [&mut self.probes, &mut self.pages] {
            let is_wanted = wanted.iter().flatten().any(|wanted| Some(*wanted) == port(served.address()));
            if is_wanted && served.moves(options).is_some() {
                served.let_go().await;
            }
        }
    }

    fn write_pages(&mut self, options: &Options) {
        self.probes.pages.exchange(probes::router(&self.context));
        self.pages.pages.exchange(pages::router(options, &self.context));
        telemetry::profiling::apply(options.pages.has_profiles);
    }
}
