//! Starts what feeds the sync loop with objects: a folder of manifests, or the apiserver.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cluster::Update;
use cluster::apiserver::{self, ConnectError, Encoding, Observer, Opened, Recorder};
use cluster::manifests::{ManifestSource, ManifestWatch};
use config::{ApiserverOptions, ContentType, DetectLocal, Options, Source};
use model::LocalDetector;

use crate::inbox::Sender;
use crate::run::StartError;
use crate::sync::Event;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A source that runs until this is dropped, or until its receiver is gone.
pub(crate) struct Running {
    pub(crate) recorder: Recorder,
    events: Sender,
    observer: Arc<dyn Observer>,
    /// Whether what the present connection delivers is still wanted.
    is_wanted: Arc<AtomicBool>,
    /// The manifests are watched for as long as this is held.
    _manifests: Option<ManifestWatch>,
}

pub(crate) fn start(
    options: &Options,
    observer: Arc<dyn Observer>,
    events: Sender,
) -> Result<Running, StartError> {
    let is_wanted = Arc::new(AtomicBool::new(true));
    let deliver = deliver(events.clone(), is_wanted.clone());
    let observed = observer.clone();
    let running = |recorder, _manifests| Running { recorder, events, observer, is_wanted, _manifests };
    match &options.source {
        Source::Manifests(path) => {
            let watch = ManifestSource::new(path).watch(deliver).map_err(StartError::Manifests)?;
            tracing::info!(version = VERSION, mode = options.mode.word(), node = %options.node_name, manifests = %path.display(), "Starting");
            Ok(running(Recorder::nowhere(), Some(watch)))
        }
        Source::Apiserver(apiserver) => {
            let settings = settings(apiserver, &options.node_name);
            let opened = apiserver::open(settings, observed).map_err(StartError::Apiserver)?;
            tracing::info!(version = VERSION, mode = options.mode.word(), node = %options.node_name, "Starting");
            warn_without_detector(options);
            Ok(running(opened.watch(deliver), None))
        }
    }
}

impl Running {
    /// A connection for changed options, unless objects come from manifests. Nothing is asked over it yet.
    pub(crate) async fn reopen(&self, options: &Options) -> Result<Option<Opened>, StartError> {
        match &options.source {
            Source::Apiserver(apiserver) => {
                let settings = settings(apiserver, &options.node_name);
                // It may wait for an exec plugin, and probes want answers.
                let observer = self.observer.clone();
                let opened = tokio::task::spawn_blocking(move || apiserver::open(settings, observer)).await;
                let opened = opened.map_err(|error| StartError::System {
                    what: "prepare another connection to the apiserver",
                    source: error.into(),
                })?;
                match opened.map_err(StartError::Apiserver)? {
                    opened if opened.is_ready() => Ok(Some(opened)),
                    // What works is not given up for what may never.
                    _ => Err(StartError::Apiserver(ConnectError::NotInTime)),
                }
            }
            // Manifests are named on the command line, which does not change.
            Source::Manifests(_) => Ok(None),
        }
    }

    /// Follow this connection instead of the present one. What is known stays known until the new lists are in.
    pub(crate) fn switch(&mut self, opened: Opened) {
        self.is_wanted.store(false, Ordering::Release);
        self.is_wanted = Arc::new(AtomicBool::new(true));
        let recorder = opened.take_over(deliver(self.events.clone(), self.is_wanted.clone()));
        self.recorder.redirect(recorder);
    }
}

fn deliver(
    events: Sender,
    is_wanted: Arc<AtomicBool>,
) -> impl Fn(Update) -> ControlFlow<()> + Send + 'static {
    move |update| match is_wanted.load(Ordering::Acquire) && events.send(Event::Update(update)).is_ok() {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    }
}

/// Harmless where all traffic to cluster IPs comes from pods and nodes, and hard to find where it does not.
fn warn_without_detector(options: &Options) {
    if options.detect_local == DetectLocal::Fixed(LocalDetector::None) {
        tracing::warn!(
            "No cluster CIDR is set, so pods cannot be distinguished from clients outside the cluster; those get no \
             answer from a cluster IP unless they can be reached directly. Set clusterCIDR (--cluster-cidr) or \
              another detect-local-mode"
        );
    }
}

fn encoding(content_type: ContentType) -> Encoding {
    match content_type {
        ContentType::Protobuf => Encoding::Protobuf,
        ContentType::Json => Encoding::Json,
    }
}

fn settings(options: &ApiserverOptions, node: &str) -> apiserver::Settings {
    apiserver::Settings {
        kubeconfig: options.kubeconfig.clone(),
        master: options.master.clone(),
        encoding: encoding(options.content_type),
        qps: options.qps,
        burst: options.burst,
        node: node.to_owned(),
    }
}
