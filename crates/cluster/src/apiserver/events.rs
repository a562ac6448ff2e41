//! Events (`events.k8s.io/v1`): what the operator should see in `kubectl describe`.
//!
//! Recording never waits: a full queue drops the event. Writing is tried for a while, and given up.

use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use hyper::Request;
use hyper::header::CONTENT_TYPE;
use model::ServiceKey;
use serde_json::json;
use tokio::sync::mpsc::{Receiver, Sender, WeakSender, channel};
use tokio::sync::oneshot;

use super::failure::Failure;
use super::link::Link;
use super::resource::escape;
use super::series::{Series, Writing};
use crate::timestamp::format_micros;
use crate::{Kind, ObjectKey};

/// Events that wait; more say nothing more.
const QUEUE: usize = 64;
const TRIES: u32 = 12;
const BETWEEN_TRIES: Duration = Duration::from_secs(10);
/// The API takes notes of less than a kilobyte.
const LONGEST_NOTE: usize = 1000;

/// Why the source itself records events.
pub const UNUSABLE_OBJECT: &str = "UnusableObject";
pub const IGNORED_ENTRIES: &str = "IgnoredEntries";

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    pub regarding: Regarding,
    /// Why, in CamelCase for machines.
    pub reason: &'static str,
    /// What was being done, in CamelCase.
    pub action: &'static str,
    pub is_warning: bool,
    /// For people.
    pub note: String,
}

/// The object an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Regarding {
    Node(String),
    Service(ServiceKey),
    /// By `namespace/name`.
    EndpointSlice(Arc<str>),
    ServiceCidr(Arc<str>),
}

impl From<&ObjectKey> for Regarding {
    fn from(key: &ObjectKey) -> Regarding {
        match key.kind {
            Kind::Service => Regarding::Service(key.path.clone()),
            Kind::EndpointSlice => Regarding::EndpointSlice(key.path.clone()),
            Kind::Node => Regarding::Node(key.name().to_owned()),
            Kind::ServiceCidr => Regarding::ServiceCidr(key.path.clone()),
        }
    }
}

impl Regarding {
    pub(super) fn name(&self) -> &str {
        match self {
            Regarding::Node(name) => name,
            Regarding::ServiceCidr(name) => name,
            Regarding::Service(path) | Regarding::EndpointSlice(path) => {
                path.split_once('/').map_or(&**path, |(_, name)| name)
            }
        }
    }

    /// Where the event lives; those about the whole cluster live in `default`.
    fn namespace(&self) -> &str {
        match self {
            Regarding::Node(_) | Regarding::ServiceCidr(_) => "default",
            Regarding::Service(path) | Regarding::EndpointSlice(path) => {
                path.split_once('/').map_or("default", |(namespace, _)| namespace)
            }
        }
    }

    fn reference(&self) -> serde_json::Value {
        match self {
            // kubelet and kube-proxy name the node as its own UID, and kubectl looks for that.
            Regarding::Node(name) => json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": name}),
            Regarding::Service(_) => json!({
                "apiVersion": "v1", "kind": "Service", "name": self.name(), "namespace": self.namespace(),
            }),
            Regarding::EndpointSlice(_) => json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "name": self.name(), "namespace": self.namespace(),
            }),
            Regarding::ServiceCidr(name) => {
                json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "name": &**name})
            }
        }
    }
}

/// Where events are recorded, if anywhere. Clones share it; the source runs for as long as there is one.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Mutex<Option<Desk>>>);

#[derive(Clone, Debug)]
struct Desk {
    events: Sender<Event>,
    /// Its end is heard at once, whatever still waits to be written.
    _hold: Arc<oneshot::Sender<()>>,
}

/// The source's end: tells when the last recorder is gone.
pub(super) struct Leash(oneshot::Receiver<()>);

impl Leash {
    pub(super) async fn dropped(self) {
        // Nothing is ever sent.
        let _ = self.0.await;
    }
}

impl Recorder {
    /// For a source without a place to record events.
    pub fn nowhere() -> Recorder {
        Recorder(Arc::default())
    }

    pub(super) fn new() -> (Recorder, Receiver<Event>, WeakRecorder, Leash) {
        let (events, receiver) = channel(QUEUE);
        let (hold, held) = oneshot::channel();
        let own = WeakRecorder(events.downgrade());
        let desk = Desk { events, _hold: Arc::new(hold) };
        (Recorder(Arc::new(Mutex::new(Some(desk)))), receiver, own, Leash(held))
    }

    /// Record where `other` does from now on, with all clones.
    pub fn redirect(&self, other: Recorder) {
        let desk = other.lock().clone();
        *self.lock() = desk;
    }

    /// Never waits.
    pub fn record(&self, event: Event) {
        if let Some(desk) = &*self.lock() {
            put(&desk.events, event);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Desk>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put(events: &Sender<Event>, event: Event) {
    if let Err(error) = events.try_send(event) {
        let (full, event) = (error.to_string(), error.into_inner());
        tracing::debug!(error = full, reason = event.reason, note = event.note, "Dropped an event");
    }
}

/// Where the source itself records: it does not keep itself running by that.
#[derive(Clone, Debug)]
pub(super) struct WeakRecorder(WeakSender<Event>);

impl WeakRecorder {
    pub(super) fn record(&self, event: Event) {
        if let Some(events) = self.0.upgrade() {
            put(&events, event);
        }
    }
}

/// Writes what is recorded, until all recorders are gone.
pub(super) async fn write(link: Rc<Link>, mut events: Receiver<Event>) {
    let mut series = Series::default();
    let mut writer = Writer { link, has_complained: false };
    loop {
        let wait = series.next_due().map(|due| due.duration_since(SystemTime::now()).unwrap_or_default());
        let writings = match within(wait, events.recv()).await {
            Some(None) => return,
            Some(Some(event)) => series.observe(event, SystemTime::now()).into_iter().collect(),
            None => series.due(SystemTime::now()),
        };
        for writing in writings {
            if let Written::Forgotten(name) = writer.write(&writing).await {
                series.forget(&name);
            }
        }
    }
}

/// `None` after the time has passed, if one is given.
async fn within<T>(time: Option<Duration>, future: impl Future<Output = T>) -> Option<T> {
    match time {
        Some(time) => tokio::time::timeout(time, future).await.ok(),
        None => Some(future.await),
    }
}

enum Written {
    Done,
    /// The Event object of this name is gone from the server.
    Forgotten(String),
}

struct Writer {
    link: Rc<Link>,
    /// It was said that events are not taken.
    has_complained: bool,
}

impl Writer {
    async fn write(&mut self, writing: &Writing) -> Written {
        for _ in 0..TRIES {
            let Err(failure) = self.attempt(writing).await else { return Written::Done };
            match (writing, &failure) {
                (Writing::Count { name, .. }, failure) if failure.is_not_found() => {
                    return Written::Forgotten(name.clone());
                }
                (_, Failure::Rejected { code, .. }) if *code < 500 && !matches!(code, 401 | 429) => {
                    self.report(writing, &failure);
                    return Written::Done;
                }
                _ => tracing::debug!(
                    event = writing.name(), error = %failure, "Failed to write an event; retrying"
                ),
            }
            tokio::time::sleep(BETWEEN_TRIES.max(failure.retry_after())).await;
        }
        Written::Done
    }

    fn report(&mut self, writing: &Writing, failure: &Failure) {
        if !self.has_complained {
            tracing::warn!(
                event = writing.name(), error = %failure,
                "Failed to write an event; check that the role may create and patch events.events.k8s.io"
            );
        }
        self.has_complained = true;
    }

    async fn attempt(&self, writing: &Writing) -> Result<(), Failure> {
        match writing {
            Writing::Create { name, event, at } => {
                let request = Request::post(path(event, None)).header(CONTENT_TYPE, "application/json");
                self.link.submit(request, self.object(name, event, *at)).await
            }
            Writing::Count { name, event, count, at } => {
                let request = Request::patch(path(event, Some(name)))
                    .header(CONTENT_TYPE, "application/merge-patch+json");
                let patch = json!({"series": {"count": count, "lastObservedTime": format_micros(*at)}});
                self.link.submit(request, patch.to_string().into_bytes()).await
            }
        }
    }

    fn object(&self, name: &str, event: &Event, at: SystemTime) -> Vec<u8> {
        let within = |(at, letter): &(usize, char)| at + letter.len_utf8() <= LONGEST_NOTE;
        let note: String = event.note.char_indices().take_while(within).map(|(_, letter)| letter).collect();
        let object = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": event.regarding.namespace()},
            "eventTime": format_micros(at),
            "reportingController": "kube-proxy",
            "reportingInstance": format!("kube-proxy-{}", self.link.node()),
            "action": event.action,
            "reason": event.reason,
            "regarding": event.regarding.reference(),
            "note": note,
            "type": if event.is_warning { "Warning" } else { "Normal" },
        });
        object.to_string().into_bytes()
    }
}

fn path(event: &Event, name: Option<&str>) -> String {
    let namespace = escape(event.regarding.namespace());
    let name = name.map(|name| format!("/{}", escape(name))).unwrap_or_default();
    format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events{name}")
}
