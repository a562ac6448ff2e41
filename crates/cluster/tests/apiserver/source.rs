//! The source under test, and everything it handed over.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use cluster::apiserver::{Encoding, Recorder, Settings, Timing, open_in_time};
use cluster::{ClusterState, Kind, ObjectChange, Update};

use super::log;
use super::observed::Observed;
use super::server::{Answer, Scripts, Server, Wish};

/// A deadline, not an expectation.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Source {
    pub(crate) server: Server,
    pub(crate) observed: Arc<Observed>,
    seen: Arc<(Mutex<Seen>, Condvar)>,
    /// The source runs for as long as this is held.
    _recorder: Recorder,
}

#[derive(Default)]
pub(crate) struct Seen {
    /// In words, of Services only.
    pub(crate) updates: Vec<String>,
    pub(crate) state: ClusterState,
}

/// [`Seen`] at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) updates: Vec<String>,
    pub(crate) services: String,
}

impl Snapshot {
    /// How often something of the kind happened: `apply`, `delete`, `retain`, `synced`.
    pub(crate) fn count(&self, word: &str) -> usize {
        count(&self.updates, word)
    }
}

fn count(updates: &[String], word: &str) -> usize {
    updates.iter().filter(|update| update.starts_with(word)).count()
}

impl Seen {
    /// Names and addresses of the services: `a=10.0.0.1 b=10.0.0.2`.
    pub(crate) fn services(&self) -> String {
        let named: BTreeSet<String> = self.state.services().map(|key| self.describe(key)).collect();
        named.into_iter().collect::<Vec<_>>().join(" ")
    }

    fn describe(&self, key: &str) -> String {
        let service = self.state.service(key).unwrap();
        let ip = service.cluster_ips.first().map(ToString::to_string);
        format!("{}={}", key.trim_start_matches("default/"), ip.unwrap_or_default())
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.updates.iter().any(|update| update == "synced")
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot { updates: self.updates.clone(), services: self.services() }
    }

    fn take(&mut self, update: Update) {
        match &update {
            Update::Changes(changes) => self.updates.extend(changes.iter().filter_map(in_words)),
            Update::Retain(Kind::Service, paths) => {
                let paths: BTreeSet<&str> = paths.iter().map(|path| &**path).collect();
                self.updates.push(format!("retain {paths:?}"));
            }
            Update::Synced(Kind::Service) => self.updates.push("synced".to_owned()),
            _ => {}
        }
        self.state.update(update);
    }
}

fn in_words(change: &ObjectChange) -> Option<String> {
    let (verb, key) = match change {
        ObjectChange::Apply(object) => ("apply", &object.key),
        ObjectChange::Delete(key) => ("delete", key),
    };
    (key.kind == Kind::Service).then(|| format!("{verb} {}", key.name()))
}

fn hand_to(seen: &Arc<(Mutex<Seen>, Condvar)>) -> impl Fn(Update) -> ControlFlow<()> + Send + 'static {
    let own = Arc::downgrade(seen);
    move |update| {
        let Some(seen) = own.upgrade() else { return ControlFlow::Break(()) };
        seen.0.lock().unwrap().take(update);
        seen.1.notify_all();
        ControlFlow::Continue(())
    }
}

/// Without a limit on requests, and of this node.
pub(crate) fn settings(address: SocketAddr, encoding: Encoding) -> Settings {
    Settings {
        kubeconfig: None,
        master: Some(format!("http://{address}")),
        encoding,
        qps: 0.0,
        burst: 0,
        node: "node-1".to_owned(),
    }
}

/// A server that answers requests for Services like this, and a source that follows it.
pub(crate) fn follow(encoding: Encoding, answers: Vec<Answer>) -> Source {
    follow_in_time(encoding, Timing::default(), answers)
}

pub(crate) fn follow_in_time(encoding: Encoding, timing: Timing, answers: Vec<Answer>) -> Source {
    let server = Server::start(Scripts::from([(Kind::Service, answers.into())]));
    Source::start(server.clone(), settings(server.address, encoding), timing)
}

impl Source {
    pub(crate) fn start(server: Server, settings: Settings, timing: Timing) -> Source {
        log::keep();
        let seen: Arc<(Mutex<Seen>, Condvar)> = Arc::default();
        let observed: Arc<Observed> = Arc::default();
        let opened = open_in_time(settings, timing, observed.clone()).unwrap();
        let recorder = opened.watch(hand_to(&seen));
        Source { server, observed, seen, _recorder: recorder }
    }

    /// Another source in the place of this one, over all that was handed over so far.
    pub(crate) fn replaced_by(self, answers: Vec<Answer>) -> Source {
        let server = Server::start(Scripts::from([(Kind::Service, answers.into())]));
        let settings = settings(server.address, Encoding::Json);
        let opened = open_in_time(settings, Timing::default(), self.observed.clone()).unwrap();
        let recorder = opened.take_over(hand_to(&self.seen));
        Source { server, _recorder: recorder, ..self }
    }

    /// Wait until something holds of what was handed over.
    pub(crate) fn await_that(&self, what: &str, condition: impl Fn(&Seen) -> bool) -> Snapshot {
        self.wait(what, condition).snapshot()
    }

    pub(crate) fn wait(&self, what: &str, condition: impl Fn(&Seen) -> bool) -> MutexGuard<'_, Seen> {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = self.seen.0.lock().unwrap();
        while !condition(&seen) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "never: {what}\n{:#?}\n{:#?}", seen.updates, self.server.all());
            seen = self.seen.1.wait_timeout(seen, left).unwrap().0;
        }
        seen
    }

    pub(crate) fn await_services(&self, wanted: &str) -> Snapshot {
        self.await_that(wanted, |seen| seen.services() == wanted)
    }

    /// Wait until the server was asked for Services so often, and say how.
    pub(crate) fn await_requests(&self, count: usize) -> Vec<super::server::Asked> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let asked = self.server.asked(Kind::Service);
            if asked.len() >= count {
                return asked;
            }
            assert!(Instant::now() < deadline, "not {count} requests: {asked:#?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// What was asked of Services, with the version of each watch.
    pub(crate) fn wishes(&self) -> Vec<(Wish, String)> {
        let asked = self.server.asked(Kind::Service).into_iter();
        asked.map(|asked| (asked.wish, asked.parameter("resourceVersion").to_owned())).collect()
    }

    pub(crate) fn now(&self) -> Snapshot {
        self.seen.0.lock().unwrap().snapshot()
    }
}
