//! Wiring: check what the node offers, start the threads, serve probes until told to stop.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use cluster::apiserver::{ConnectError, Recorder};
use cluster::manifests::ManifestError;
use config::{DetectLocal, Options, Resolved, flags};
use dataplane::{BuildOptions, Farewell, Mode, Prepared, Running, Setup, Unavailable, pins};
use kernel::link::LinkError;
use model::LocalDetector;
use tokio::signal::unix::{SignalKind, signal};

use crate::config_watch::ConfigWatch;
use crate::health::Health;
use crate::http::{BindError, CheckReporter, Context, Servers};
use crate::inbox::{self, Receiver, Sender};
use crate::questions::Asker;
use crate::reload::Steps;
use crate::sync::{Event, FirstSync, Outlets, SyncLoop};
use crate::{addresses, default_mode, events, flows, leftovers, logging, node_setup, reload, source};
use telemetry::metrics::Metrics;

/// How long the threads may take to end.
const FAREWELL: Duration = Duration::from_millis(500);

/// Why the agent did not start, and programmed nothing; or why it stopped by itself.
#[derive(Debug)]
pub enum StartError {
    Mode(Unavailable),
    Manifests(ManifestError),
    Apiserver(ConnectError),
    Addresses(LinkError),
    Bind(BindError),
    System { what: &'static str, source: io::Error },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Mode(error) => write!(f, "{error}"),
            StartError::Manifests(error) => write!(f, "{error}"),
            StartError::Apiserver(error) => write!(f, "{error}"),
            StartError::Addresses(error) => write!(f, "cannot watch the node's addresses: {error}"),
            StartError::Bind(error) => write!(f, "{error}"),
            StartError::System { what, source } => write!(f, "cannot {what}: {source}"),
        }
    }
}

impl std::error::Error for StartError {}

/// Run until SIGTERM or SIGINT. The rules stay in place.
pub fn run(resolved: Resolved) -> Result<(), StartError> {
    let prepared = prepare(&resolved.options)?;
    // Each health check of a service is a listener or two.
    if let Err(error) = kernel::process::raise_open_files() {
        tracing::warn!(%error, "Failed to raise the limit of open files; the agent may run out of them if many services have health checks");
    }
    let system = |what| move |source| StartError::System { what, source };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(system("start the event loop"))?;
    let tasks = tokio::task::LocalSet::new();
    let outcome = tasks.block_on(&runtime, serve_until_stopped(resolved, prepared));
    // What still waits for something, like an exec plugin, is not waited for.
    runtime.shutdown_background();
    outcome
}

/// Do nothing until SIGTERM or SIGINT. The first process of a container has no other way to end by them.
pub fn wait_to_be_terminated() -> Result<(), StartError> {
    let system = |what| move |source| StartError::System { what, source };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(system("start the event loop"))?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(system("catch SIGTERM"))?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(system("catch SIGINT"))?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    })
}

/// What the chosen mode needs, found on this node before anything is changed.
pub(crate) fn prepare(options: &Options) -> Result<Box<dyn Prepared>, StartError> {
    mode(options)?.prepare(options.mode_because.as_deref()).map_err(StartError::Mode)
}

fn mode(options: &Options) -> Result<&'static dyn Mode, StartError> {
    dataplane::mode(options.mode.word()).map_err(StartError::Mode)
}

async fn serve_until_stopped(resolved: Resolved, prepared: Box<dyn Prepared>) -> Result<(), StartError> {
    let system = |what| move |source| StartError::System { what, source };
    let mut terminate = signal(SignalKind::terminate()).map_err(system("catch SIGTERM"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(system("catch SIGINT"))?;
    let hang_up = signal(SignalKind::hangup()).map_err(system("catch SIGHUP"))?;
    let config = ConfigWatch::new(&resolved, |file, text| flags::reconsider(file, text, default_mode));
    let options = resolved.options;
    let health = Health::new(options.sync_period);
    let metrics = Metrics::new(mode(&options)?.metrics(), &options.feature_gates);
    let inbox = inbox::channel();
    let context = Context {
        health: health.clone(),
        metrics: metrics.clone(),
        started: SystemTime::now(),
        arguments: std::env::args_os().skip(1).map(|given| given.to_string_lossy().into_owned()).collect(),
        sync_thread: Asker::new(inbox.0.clone()),
    };
    let (servers, checks) = Servers::claim(&options, context).map_err(StartError::Bind)?;
    let mut agent = Agent::start(options, prepared, inbox, health, metrics, servers, checks)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = reload::follow(config, hang_up, &mut agent) => {}
    }
    tracing::info!("Stopping; the rules stay in place");
    agent.stop();
    Ok(())
}

/// What the rules depend on at the start. Ask once the node is set up.
pub(crate) fn setup(options: &Options) -> Setup {
    let detector = match &options.detect_local {
        DetectLocal::Fixed(detector) => detector.clone(),
        // The sync loop sets it before its first sync.
        DetectLocal::NodeCidr => LocalDetector::None,
    };
    let drop_invalid = node_setup::drops_invalid(options);
    Setup {
        detector,
        masquerade_mark: options.masquerade_mark,
        drop_invalid,
        of_mode: options.of_mode.clone(),
    }
}

/// The running threads.
pub(crate) struct Agent {
    options: Options,
    events: Sender,
    sync: JoinHandle<()>,
    farewell: Option<Farewell>,
    source: source::Running,
    servers: Servers,
}

impl Agent {
    fn start(
        options: Options,
        prepared: Box<dyn Prepared>,
        (sender, receiver): (Sender, Receiver),
        health: Health,
        metrics: Metrics,
        mut servers: Servers,
        checks: CheckReporter,
    ) -> Result<Agent, StartError> {
        let system = |what| move |source| StartError::System { what, source };
        let addresses = addresses::watch(sender.clone()).map_err(StartError::Addresses)?;
        let flows = flows::start(metrics.flows().clone()).map_err(system("start a thread"))?;
        let found = sender.clone();
        let pins = pins::start(Box::new(move |pins| found.send(Event::PinsFound(pins)).is_ok()))
            .map_err(system("start a thread"))?;
        let observer = Arc::new(metrics.api().clone());
        let source = source::start(&options, observer, sender.clone())?;
        if let Some(because) = &options.mode_because {
            let event = events::default_mode(&options.node_name, options.mode.word(), because);
            tracing::warn!("{}", event.note);
            source.recorder.record(event);
        }
        if let Some((reason, note)) = mode(&options)?.advice() {
            tracing::warn!("{note}");
            source.recorder.record(events::mode_advice(&options.node_name, reason, note));
        }
        source.recorder.record(events::starting(&options.node_name));
        node_setup::apply(&options, &source.recorder);
        prepared.tell();
        let (node, recorder) = (options.node_name.clone(), source.recorder.clone());
        let leftovers = prepared.leftovers();
        let drifts = sender.clone();
        let first_sync = FirstSync {
            remove_leftovers: Box::new(move || leftovers::remove(leftovers, node, recorder)),
            tell_drift: Box::new(move |drift| drifts.send(Event::Drift(drift)).is_ok()),
        };
        let setup = setup(&options);
        let wanted = BuildOptions { setup: &setup, count_services: options.service_counters };
        let Running { backend, collectors, traffic } = prepared.build(&wanted).map_err(StartError::Mode)?;
        collectors.into_iter().for_each(|collector| metrics.extend(collector));
        traffic.into_iter().for_each(|traffic| metrics.set_traffic(traffic));
        let recorder = source.recorder.clone();
        let farewell = backend.farewell();
        let outlets = Outlets { health, flows, pins, checks, metrics, recorder };
        let sync = SyncLoop::new(options.clone(), setup, backend, addresses, outlets, first_sync);
        let sync = std::thread::Builder::new()
            .name("sync".into())
            .spawn(move || sync.run(&receiver))
            .map_err(system("start a thread"))?;
        servers.start(source.recorder.clone());
        Ok(Agent { options, events: sender, sync, farewell, source, servers })
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn recorder(&self) -> Recorder {
        self.source.recorder.clone()
    }

    /// Take other options on, wholly or not at all.
    pub(crate) async fn reconfigure(&mut self, options: Options, steps: &Steps) -> Result<(), StartError> {
        // Where no name is set, the host may have been renamed.
        let is_renamed = self.options.node_name != options.node_name;
        let opened = match steps.reconnect || is_renamed {
            true => self.source.reopen(&options).await?,
            false => None,
        };
        if steps.rebind {
            self.servers.claim_next(&options).await.map_err(StartError::Bind)?;
        }
        self.servers.follow(&options);
        if let Some(opened) = opened {
            self.source.switch(opened);
        }
        logging::configure(&options.logging);
        if node_setup::asks_something_else(&self.options, &options) {
            node_setup::apply(&options, &self.source.recorder);
        }
        // The sync loop ends only with the process.
        let _ = self.events.send(Event::Reconfigure(Box::new(options.clone())));
        self.options = options;
        Ok(())
    }

    /// A commit under way may take longer than the sender of SIGTERM waits, and so may a source that reads: they end
    /// with the process then. A transaction is done as a whole or not at all.
    fn stop(self) {
        // Only a mode that carries connections itself takes its time.
        let drain = self.options.of_mode.time_to_stop();
        let deadline = Instant::now() + drain;
        let (done, ended) = channel::<()>();
        let end = move || {
            // A failed send or join means that the thread is gone already.
            let _ = self.events.send(Event::Stop);
            // Not left to the sync thread: the process may end during its commit, and connections would end as if complete.
            if let Some(farewell) = self.farewell {
                farewell(deadline);
            }
            let _ = self.sync.join();
            drop((self.source, done));
        };
        if std::thread::Builder::new().name("end".into()).spawn(end).is_ok() {
            let _ = ended.recv_timeout(FAREWELL + drain);
        }
    }
}
