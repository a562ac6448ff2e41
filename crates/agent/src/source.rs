//! Starts what feeds the sync loop with objects: a folder of manifests, or the apiserver.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use cluster::Update;
use cluster::apiserver::{self, Recorder};
use cluster::manifests::{ManifestSource, ManifestWatch};
use model::LocalDetector;

use crate::metrics::Metrics;
use crate::options::{ApiserverOptions, DetectLocal, Options, Source};
use crate::run::StartError;
use crate::sync::Event;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A source that runs until this is dropped, or until nobody listens any more.
pub(crate) struct Running {
    pub(crate) recorder: Recorder,
    /// The manifests are watched for as long as this is held.
    _manifests: Option<ManifestWatch>,
}

pub(crate) fn start(
    options: &Options,
    metrics: &Metrics,
    events: Sender<Event>,
) -> Result<Running, StartError> {
    let deliver = move |update: Update| match events.send(Event::Update(update)) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    };
    match &options.source {
        Source::Manifests(path) => {
            let watch = ManifestSource::new(path).watch(deliver).map_err(StartError::Manifests)?;
            tracing::info!(version = VERSION, mode = "nftables", node = %options.node_name, manifests = %path.display(), "Starting");
            Ok(Running { recorder: Recorder::nowhere(), _manifests: Some(watch) })
        }
        Source::Apiserver(apiserver) => {
            let settings = settings(apiserver, &options.node_name);
            let recorder = apiserver::watch(settings, Arc::new(metrics.api().clone()), deliver)
                .map_err(StartError::Apiserver)?;
            tracing::info!(version = VERSION, mode = "nftables", node = %options.node_name, "Starting");
            warn_without_detector(options);
            Ok(Running { recorder, _manifests: None })
        }
    }
}

/// Harmless where all traffic to cluster IPs comes from pods and nodes, and hard to find where it does not.
fn warn_without_detector(options: &Options) {
    if options.detect_local == DetectLocal::Fixed(LocalDetector::None) {
        tracing::warn!(
            "No cluster CIDR is set, so nothing tells pods from callers outside: those get no answer from a cluster \
             IP unless they can be reached directly; set clusterCIDR (--cluster-cidr) or another detect-local-mode"
        );
    }
}

fn settings(options: &ApiserverOptions, node: &str) -> apiserver::Settings {
    apiserver::Settings {
        kubeconfig: options.kubeconfig.clone(),
        master: options.master.clone(),
        encoding: options.encoding,
        qps: options.qps,
        burst: options.burst,
        node: node.to_owned(),
    }
}
