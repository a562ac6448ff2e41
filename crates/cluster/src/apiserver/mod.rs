//! The apiserver source: lists and watches what the proxy lives on, for as long as the agent runs.
//!
//! Written by hand down to HTTP: the reflectors have to speak protobuf, take lists as streams, hand objects over one by
//! one and never give up, and the usual client brings along fifty crates to read a kubeconfig and connect.
//! All of it runs on one thread of its own: ten megabytes of list hold up neither probes nor syncs. An exec plugin runs on
//! another one.

mod answer;
mod base64;
mod client;
mod complaints;
mod connect;
mod events;
mod failure;
#[doc(hidden)]
pub mod fuzz;
mod identity;
mod kubeconfig;
mod link;
mod list;
mod no_proxy;
mod observer;
mod outage;
mod pace;
mod plugin;
mod reflector;
mod resource;
mod route;
mod series;
mod target;
mod timing;
mod tls;
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

pub use complaints::Extent;
pub use connect::ConnectError;
pub use events::{Event, IGNORED_ENTRIES, Recorder, Regarding, UNUSABLE_OBJECT};
use events::{Leash, WeakRecorder};
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

/// The caller that starts the source waits so long for what may be wrong with its credentials, and no longer: signals and
/// probes want an answer too.
const START: Duration = Duration::from_secs(3);
/// An exec plugin that failed is run again after this time.
const RETRY: Duration = Duration::from_secs(5);

type Deliver = Box<dyn Fn(Update) -> ControlFlow<()> + Send>;

/// Read the credentials and get ready to ask. What needs the operator, like a kubeconfig that cannot be read, is an
/// error now; a server that does not answer is waited for, later.
pub fn open(settings: Settings, observer: Arc<dyn Observer>) -> Result<Opened, ConnectError> {
    open_in_time(settings, Timing::default(), observer)
}

/// A source that asks nothing yet. Dropped, it ends.
pub struct Opened {
    start: mpsc::Sender<Order>,
    is_ready: bool,
}

/// What the source is to do once it can.
struct Order {
    deliver: Deliver,
    events: Receiver<Event>,
    /// For what the source has to say itself.
    own: WeakRecorder,
    leash: Leash,
    /// Another source delivered before: what is not in the first lists must go.
    replaces: bool,
}

impl Opened {
    /// Whether the credentials are there. They may still be waited for, from an exec plugin that takes its time.
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Start to watch; `deliver` gets everything, on the source's thread. It goes on for as long as the recorder is
    /// held and `deliver` does not break off.
    pub fn watch(self, deliver: impl Fn(Update) -> ControlFlow<()> + Send + 'static) -> Recorder {
        if !self.is_ready {
            tracing::warn!(
                "Still waiting for apiserver credentials; is the exec plugin in the kubeconfig hanging? \
                 Rules of an earlier run stay as they are"
            );
        }
        self.start(Box::new(deliver), false)
    }

    /// The same after another source that delivered to the same place, and does so no more.
    pub fn take_over(self, deliver: impl Fn(Update) -> ControlFlow<()> + Send + 'static) -> Recorder {
        self.start(Box::new(deliver), true)
    }

    fn start(self, deliver: Deliver, replaces: bool) -> Recorder {
        let (recorder, events, own, leash) = Recorder::new();
        // The thread waits for this, or still for its credentials.
        let _ = self.start.send(Order { deliver, events, own, leash, replaces });
        recorder
    }
}

/// The same with other ideas of how long an apiserver may take.
pub fn open_in_time(
    settings: Settings,
    timing: Timing,
    observer: Arc<dyn Observer>,
) -> Result<Opened, ConnectError> {
    let (report, started) = mpsc::channel();
    let (start, orders) = mpsc::channel();
    std::thread::Builder::new()
        .name("apiserver".into())
        .spawn(move || {
            let mut orders = Orders { orders, first: None };
            let opened = keep_opening(&settings, timing, &observer, report, &mut orders);
            if let (Some((runtime, link)), Some(order)) = (opened, orders.wait()) {
                run(&runtime, link, order);
            }
        })
        .map_err(ConnectError::Thread)?;
    match started.recv_timeout(START) {
        Ok(outcome) => outcome.map(|()| Opened { start, is_ready: true }),
        Err(_) => Ok(Opened { start, is_ready: false }),
    }
}

/// The one order there will be, or the news that the source is no longer wanted.
struct Orders {
    orders: mpsc::Receiver<Order>,
    first: Option<Order>,
}

impl Orders {
    fn wait(self) -> Option<Order> {
        self.first.or_else(|| self.orders.recv().ok())
    }

    fn are_over(&mut self) -> bool {
        let gone = match self.orders.try_recv() {
            Ok(order) => {
                self.first = Some(order);
                false
            }
            Err(error) => error == mpsc::TryRecvError::Disconnected,
        };
        match &self.first {
            Some(order) => order.events.is_closed(),
            None => gone,
        }
    }
}

/// The first error goes to the caller that started us; a later one is logged, and everything is retried.
fn keep_opening(
    settings: &Settings,
    timing: Timing,
    observer: &Arc<dyn Observer>,
    report: mpsc::Sender<Result<(), ConnectError>>,
    orders: &mut Orders,
) -> Option<(Runtime, Link)> {
    loop {
        match try_open(settings, timing, observer) {
            Ok((runtime, link)) => {
                // The caller no longer waits if it took long.
                let _ = report.send(Ok(()));
                return Some((runtime, link));
            }
            Err(error) => match report.send(Err(error)) {
                Ok(()) => return None,
                Err(_) if orders.are_over() => return None,
                Err(mpsc::SendError(late)) => {
                    late.err().into_iter().for_each(|error| tracing::error!("{error}; retrying"));
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

/// Everything ends with the last recorder, events that wait included.
fn run(runtime: &Runtime, link: Link, order: Order) {
    tracing::info!(server = %link.server(), "Watching the apiserver");
    let Order { deliver, events, own, leash, replaces } = order;
    let outages = Rc::new(Outages::new(link.server()));
    let (link, deliver) = (Rc::new(link), Rc::new(deliver));
    let tasks = LocalSet::new();
    for resource in Resource::all(link.node()) {
        let (link, deliver, outages) = (link.clone(), deliver.clone(), outages.clone());
        let reflector = Reflector::new(resource, link, deliver, outages, own.clone(), replaces);
        tasks.spawn_local(reflector.run());
    }
    tasks.spawn_local(events::write(link, events));
    runtime.block_on(tasks.run_until(leash.dropped()));
}
