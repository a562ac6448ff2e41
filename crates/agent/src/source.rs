//! Starts what feeds the sync loop with objects: a folder of manifests, or the apiserver.

use std::ops::ControlFlow;
use std::sync::mpsc::Sender;

use cluster::Update;
use cluster::apiserver::{self, Encoding};
use cluster::manifests::{ManifestSource, ManifestWatch};

use crate::options::{ApiserverOptions, ContentType, Options, Source};
use crate::run::StartError;
use crate::sync::Event;

/// A source that runs until this is dropped, or until nobody listens any more.
#[expect(dead_code, reason = "the manifests are watched for as long as this is held")]
pub(crate) struct Running(Option<ManifestWatch>);

pub(crate) fn start(options: &Options, events: Sender<Event>) -> Result<Running, StartError> {
    let deliver = move |update: Update| match events.send(Event::Update(update)) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    };
    match &options.source {
        Source::Manifests(path) => {
            tracing::info!(node = %options.node_name, manifests = %path.display(), "Starting");
            let watch = ManifestSource::new(path).watch(deliver).map_err(StartError::Manifests)?;
            Ok(Running(Some(watch)))
        }
        Source::Apiserver(apiserver) => {
            tracing::info!(node = %options.node_name, "Starting");
            apiserver::watch(settings(apiserver, &options.node_name), deliver)
                .map_err(StartError::Apiserver)?;
            Ok(Running(None))
        }
    }
}

fn settings(options: &ApiserverOptions, node: &str) -> apiserver::Settings {
    apiserver::Settings {
        kubeconfig: options.kubeconfig.clone(),
        master: options.master.clone(),
        encoding: match options.content_type {
            ContentType::Protobuf => Encoding::Protobuf,
            ContentType::Json => Encoding::Json,
        },
        qps: options.qps,
        burst: options.burst,
        node: node.to_owned(),
    }
}
