//! The apiserver source: lists and watches what the proxy lives on, for as long as the agent runs.
//!
//! Connection, credentials and TLS are `kube`'s; the reflectors are ours, because they have to speak protobuf,
//! take lists as streams, hand objects over one by one and never give up. All of it runs on one thread of its
//! own: an exec plugin that hangs or ten megabytes of list hold up neither probes nor syncs.

mod answer;
mod connect;
mod events;
mod failure;
mod link;
mod list;
mod observer;
mod outage;
mod pace;
mod reflector;
mod resource;
mod series;
mod timing;
mod wire;
mod wording;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc::Receiver;
use tokio::task::LocalSet;

use crate::Update;
use link::Link;
use outage::Outages;
use reflector::Reflector;
use resource::Resource;

pub use connect::ConnectError;
pub use events::{Event, Recorder, Regarding};
pub use observer::{Observer, Phase, RequestSeen};
pub use timing::Timing;
pub use wire::Encoding;
pub use wording::masked;

/// How to reach the apiserver, and what to ask of it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Without one, and without `master`: the service account of the pod.
    pub kubeconfig: Option<PathBuf>,
    /// Overrides the server of the kubeconfig.
    pub master: Option<String>,
    pub encoding: Encoding,
    /// Requests a second in the long run; 0 for no limit.
    pub qps: f32,
    pub burst: u32,
    /// The only Node that is watched.
    pub node: String,
}

/// Whoever starts the source waits so long for what may be wrong with its credentials, and no longer: signals and
/// probes want an answer too.
const START: Duration = Duration::from_secs(3);
/// An exec plugin that failed is run again after this time.
const RETRY: Duration = Duration::from_secs(5);

type Deliver = Box<dyn Fn(Update) -> ControlFlow<()> + Send>;

/// Start to watch; `deliver` gets everything, on the source's thread, until it breaks off.
pub fn watch(
    settings: Settings,
    observer: Arc<dyn Observer>,
    deliver: impl Fn(Update) -> ControlFlow<()> + Send + 'static,
) -> Result<Recorder, ConnectError> {
    Ok(open(settings, observer)?.watch(deliver))
}

/// The same with other ideas of how long an apiserver may take.
pub fn watch_in_time(
    settings: Settings,
    timing: Timing,
    observer: Arc<dyn Observer>,
    deliver: impl Fn(Update) -> ControlFlow<()> + Send + 'static,
) -> Result<Recorder, ConnectError> {
    Ok(open_in_time(settings, timing, observer)?.watch(deliver))
}

/// Read the credentials and get ready to ask. What needs the operator, like a kubeconfig that cannot be read, is an
/// error now; a server that does not answer is waited for, later.
pub fn open(settings: Settings, observer: Arc<dyn Observer>) -> Result<Opened, ConnectError> {
    open_in_time(settings, Timing::default(), observer)
}

/// A source that asks nothing yet. Dropped, it ends.
pub struct Opened {
    start: mpsc::Sender<(Deliver, Receiver<Event>)>,
}

impl Opened {
    /// Start to watch. It goes on for as long as somebody holds the recorder and `deliver` does not break off.
    pub fn watch(self, deliver: impl Fn(Update) -> ControlFlow<()> + Send + 'static) -> Recorder {
        let (recorder, events) = Recorder::new();
        let deliver: Deliver = Box::new(deliver);
        // The thread waits for this, or still for its credentials.
        let _ = self.start.send((deliver, events));
        recorder
    }
}

fn open_in_time(
    settings: Settings,
    timing: Timing,
    observer: Arc<dyn Observer>,
) -> Result<Opened, ConnectError> {
    let (report, started) = mpsc::channel();
    let (start, orders) = mpsc::channel();
    std::thread::Builder::new()
        .name("apiserver".into())
        .spawn(move || {
            let Some((runtime, link)) = keep_opening(&settings, timing, &observer, report) else { return };
            if let Ok((deliver, events)) = orders.recv() {
                run(&runtime, link, deliver, events);
            }
        })
        .map_err(ConnectError::Thread)?;
    match started.recv_timeout(START) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(error),
        Err(_) => tracing::warn!(
            "Credentials for the apiserver are still not there; does the exec plugin of the kubeconfig hang? \
             Rules of an earlier run stay as they are"
        ),
    }
    Ok(Opened { start })
}

/// The first error goes to whoever started us; one that comes later is logged, and all is tried again.
fn keep_opening(
    settings: &Settings,
    timing: Timing,
    observer: &Arc<dyn Observer>,
    report: mpsc::Sender<Result<(), ConnectError>>,
) -> Option<(Runtime, Link)> {
    loop {
        match try_open(settings, timing, observer) {
            Ok((runtime, link)) => {
                // Nobody waits any more if it took long.
                let _ = report.send(Ok(()));
                return Some((runtime, link));
            }
            Err(error) => match report.send(Err(error)) {
                Ok(()) => return None,
                Err(mpsc::SendError(late)) => {
                    late.err().into_iter().for_each(|error| tracing::error!("{error}; trying again"));
                    std::thread::sleep(RETRY);
                }
            },
        }
    }
}

fn try_open(
    settings: &Settings,
    timing: Timing,
    observer: &Arc<dyn Observer>,
) -> Result<(Runtime, Link), ConnectError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(ConnectError::Thread)?;
    let link = runtime.block_on(Link::open(settings.clone(), timing, observer.clone()))?;
    Ok((runtime, link))
}

/// Everything ends with the last recorder.
fn run(runtime: &Runtime, link: Link, deliver: Deliver, events: Receiver<Event>) {
    tracing::info!(server = %link.server(), "Watching the apiserver");
    let outages = Rc::new(Outages::new(link.server()));
    let (link, deliver) = (Rc::new(link), Rc::new(deliver));
    let tasks = LocalSet::new();
    for resource in Resource::all(link.node()) {
        let reflector = Reflector::new(resource, link.clone(), deliver.clone(), outages.clone());
        tasks.spawn_local(reflector.run());
    }
    runtime.block_on(tasks.run_until(events::write(link, events)));
}
