//! Forgetting recorded flows that became stale: a thread of its own, so that no sync waits for it.

use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use kernel::conntrack::{Conntrack, ConntrackError, Deleted, Filter, Flow};
use model::{Family, FlowTarget, Protocol, RecordedFlow, StaleFlows, StaleSet};

use telemetry::metrics::{FlowMetrics, PerFamily};

/// With a rest of this many times the cost, walking the flow table takes at most a tenth of one core.
const REST_PER_COST: u32 = 9;
const LONGEST_REST: Duration = Duration::from_secs(1);
/// A client whose handshake went to a removed endpoint sends its SYN again after a second; there is no use in
/// being much earlier.
const HANDSHAKE: Duration = Duration::from_millis(800);
/// When a pass failed, it is repeated after this long.
const RETRY: Duration = Duration::from_secs(2);
/// UDP first: its flows do not end by themselves.
const PROTOCOLS: [Protocol; 3] = [Protocol::Udp, Protocol::Sctp, Protocol::Tcp];

/// Flows that a sync left behind.
#[derive(Debug)]
pub(crate) struct StaleWork {
    pub(crate) family: Family,
    pub(crate) stale: Vec<StaleFlows>,
    /// Addresses that serve node ports.
    pub(crate) node_ips: Vec<IpAddr>,
}

/// Start the cleaner in the calling thread's network namespace.
pub(crate) fn start(metrics: PerFamily<FlowMetrics>) -> std::io::Result<Sender<StaleWork>> {
    let (sender, receiver) = channel();
    std::thread::Builder::new().name("stale-flows".into()).spawn(move || clean(&receiver, &metrics))?;
    Ok(sender)
}

fn clean(receiver: &Receiver<StaleWork>, metrics: &PerFamily<FlowMetrics>) {
    let mut all = Family::BOTH.map(|family| Remains::new(family, metrics.of(family).clone()));
    let mut pace = Pace::default();
    loop {
        let next = match pace.wait(&all, Instant::now()) {
            None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(Duration::ZERO) => {
                pace.pass(|| all.iter_mut().for_each(Remains::clean));
                pace.has_failed = all.iter().any(|remains| remains.has_failed);
                continue;
            }
            Some(wait) => receiver.recv_timeout(wait),
        };
        match next {
            // What piles up meanwhile is handled in one pass.
            Ok(work) => std::iter::once(work)
                .chain(receiver.try_iter())
                .for_each(|work| all[work.family.index()].add(work)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// When the next pass may begin: the kernel walks its whole table in each, however few flows there are.
#[derive(Default)]
struct Pace {
    last: Option<(Instant, Instant)>,
    has_failed: bool,
}

impl Pace {
    fn pass(&mut self, work: impl FnOnce()) {
        let started = Instant::now();
        work();
        self.last = Some((started, Instant::now()));
    }

    /// `None` if there is nothing to do.
    fn wait(&self, all: &[Remains], now: Instant) -> Option<Duration> {
        let again = all.iter().filter_map(|remains| remains.second_look).min();
        let again = again.map(|at| at.saturating_duration_since(now));
        if !all.iter().any(Remains::is_open) {
            return again;
        }
        let Some((started, ended)) = self.last else { return Some(Duration::ZERO) };
        let rest = ended + ((ended - started) * REST_PER_COST).min(LONGEST_REST);
        let due = match all.iter().any(Remains::is_urgent) {
            _ if self.has_failed => ended + RETRY,
            true => rest,
            false => rest.max(started + HANDSHAKE),
        };
        let wait = due.saturating_duration_since(now);
        Some(again.map_or(wait, |again| again.min(wait)))
    }
}

/// What is still to be forgotten in one family.
struct Remains {
    family: Family,
    set: StaleSet,
    node_ips: Vec<IpAddr>,
    /// The protocols whose flows have to be walked.
    open: [bool; 3],
    /// When to walk those of UDP once more: a packet that was under way with the old rules may have recorded its flow again
    /// after it was deleted, and such a flow goes on without end.
    second_look: Option<Instant>,
    /// The last pass failed; the next one may not.
    has_failed: bool,
    metrics: FlowMetrics,
}

impl Remains {
    fn new(family: Family, metrics: FlowMetrics) -> Remains {
        let (set, node_ips) = (StaleSet::default(), Vec::new());
        Remains { family, set, node_ips, open: [false; 3], second_look: None, has_failed: false, metrics }
    }

    fn is_open(&self) -> bool {
        self.open.contains(&true)
    }

    /// Flows that go on without end; of TCP there are only handshakes.
    fn is_urgent(&self) -> bool {
        self.open[Protocol::Udp as usize] || self.open[Protocol::Sctp as usize]
    }

    fn add(&mut self, work: StaleWork) {
        for flows in work.stale {
            self.open[flows.protocol as usize] |= flows.asks_something();
            self.set.add(flows);
        }
        self.node_ips = work.node_ips;
    }

    /// Walk the flows of every open protocol. One stays open if that fails, or if the table changed so that flows may have
    /// been left out.
    fn clean(&mut self) {
        self.clean_with(Instant::now(), forget);
    }

    fn clean_with(
        &mut self,
        started: Instant,
        forget: impl Fn(&Remains, Protocol) -> Result<Deleted, ConntrackError>,
    ) {
        let is_second = self.second_look.is_some_and(|at| at <= started);
        if !self.is_open() && !is_second {
            return;
        }
        let mut deleted = 0;
        self.has_failed = false;
        for protocol in PROTOCOLS {
            let is_first = self.open[protocol as usize];
            let is_due = is_first || is_second && protocol == Protocol::Udp;
            if !is_due {
                continue;
            }
            let outcome = forget(self, protocol);
            self.open[protocol as usize] = match &outcome {
                Ok(done) => {
                    deleted += done.deleted;
                    if protocol == Protocol::Udp {
                        let is_due = is_first && done.deleted > 0;
                        self.second_look = is_due.then(|| started + HANDSHAKE);
                    }
                    !done.complete
                }
                Err(error) => {
                    self.metrics.failed();
                    self.has_failed |= may_pass(error);
                    may_pass(error)
                }
            };
            report(self.family, protocol, outcome);
        }
        self.metrics.walked(started.elapsed(), deleted);
        if !self.is_open() && self.second_look.is_none() {
            self.set = StaleSet::default();
        }
    }
}

/// Whether trying again may help.
fn may_pass(error: &ConntrackError) -> bool {
    !matches!(error, ConntrackError::Absent | ConntrackError::NotPermitted)
}

fn forget(remains: &Remains, protocol: Protocol) -> Result<Deleted, ConntrackError> {
    let Remains { family, set, node_ips, .. } = remains;
    let family = match family {
        Family::V4 => kernel::IpFamily::V4,
        Family::V6 => kernel::IpFamily::V6,
    };
    // Of TCP only half-open flows can be stale; the kernel passes over the others.
    let unanswered = protocol == Protocol::Tcp;
    let filter = Filter { family: Some(family), protocol: Some(protocol.number()), unanswered };
    Conntrack::open()?
        .delete_where(&filter, |flow| set.is_stale(&recorded(flow, protocol), |ip| node_ips.contains(&ip)))
}

fn recorded(flow: &Flow, protocol: Protocol) -> RecordedFlow {
    let (sent_to, went_to) = ((flow.original.dst, flow.original.dport), (flow.reply.src, flow.reply.sport));
    RecordedFlow {
        protocol,
        destination: sent_to.0,
        port: sent_to.1,
        target: match went_to == sent_to {
            true => FlowTarget::Untouched,
            false => FlowTarget::Endpoint(went_to.0, went_to.1),
        },
        half_open: !flow.is_answered(),
    }
}

fn report(family: Family, protocol: Protocol, outcome: Result<Deleted, ConntrackError>) {
    match outcome {
        Ok(done) => tracing::debug!(
            %family, %protocol, examined = done.examined, deleted = done.deleted, "Deleted stale flows"
        ),
        Err(error) => tracing::error!(
            %family, %protocol, %error,
            "Failed to delete stale flows; clients of removed endpoints may hang until their flow expires"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::FeatureGates;
    use telemetry::metrics::Metrics;

    #[test]
    fn handshakes_are_collected_and_udp_is_not_kept_waiting() {
        let now = Instant::now();
        let metrics = Metrics::of_mode("nftables", &FeatureGates::default());
        let mut all = Family::BOTH.map(|family| Remains::new(family, metrics.flows().of(family).clone()));
        let mut pace = Pace::default();
        assert_eq!(pace.wait(&all, now), None);
        all[0].open[Protocol::Tcp as usize] = true;
        assert_eq!(pace.wait(&all, now), Some(Duration::ZERO), "the first one waits for nobody");
        pace.last = Some((now, now + Duration::from_millis(10)));
        let later = now + Duration::from_millis(200);
        assert_eq!(pace.wait(&all, later), Some(Duration::from_millis(600)));
        all[1].open[Protocol::Udp as usize] = true;
        assert_eq!(pace.wait(&all, later), Some(Duration::ZERO), "the rest of 90 ms is over");
        pace.has_failed = true;
        assert_eq!(pace.wait(&all, later), Some(RETRY - Duration::from_millis(190)));
    }

    #[test]
    fn udp_is_looked_at_once_more_where_something_was_deleted() {
        let start = Instant::now();
        let metrics = Metrics::of_mode("nftables", &FeatureGates::default());
        let mut remains = Remains::new(Family::V4, metrics.flows().of(Family::V4).clone());
        let walks = std::cell::RefCell::new(Vec::new());
        let found = |deleted| {
            let walks = &walks;
            move |_: &Remains, protocol| {
                walks.borrow_mut().push(protocol);
                Ok(Deleted { examined: 9, deleted, complete: true, ..Deleted::default() })
            }
        };
        remains.open = [true; 3];
        remains.clean_with(start, found(1));
        assert_eq!(walks.take(), PROTOCOLS);
        assert_eq!(remains.second_look, Some(start + HANDSHAKE));
        remains.clean_with(start, found(1));
        assert_eq!(walks.take(), [], "not yet");
        let pace = Pace { last: Some((start, start)), has_failed: false };
        assert_eq!(pace.wait(std::slice::from_ref(&remains), start), Some(HANDSHAKE));
        remains.clean_with(start + HANDSHAKE, found(1));
        assert_eq!((walks.take(), remains.second_look), (vec![Protocol::Udp], None), "and not again");
        remains.open[Protocol::Udp as usize] = true;
        remains.clean_with(start + HANDSHAKE, found(0));
        assert_eq!((walks.take(), remains.second_look), (vec![Protocol::Udp], None));
        assert_eq!(pace.wait(std::slice::from_ref(&remains), start), None);
    }

    #[test]
    fn a_walk_that_may_have_left_flows_out_is_repeated() {
        let metrics = Metrics::of_mode("nftables", &FeatureGates::default());
        let mut remains = Remains::new(Family::V4, metrics.flows().of(Family::V4).clone());
        remains.open[Protocol::Udp as usize] = true;
        let walked = |complete| move |_: &Remains, _| Ok(Deleted { complete, ..Deleted::default() });
        remains.clean_with(Instant::now(), walked(false));
        assert!(remains.is_open() && !remains.has_failed, "soon, not as after a failure");
        remains.clean_with(Instant::now(), walked(true));
        assert!(!remains.is_open());
    }
}
