//! Forgetting recorded flows that became stale: a thread of its own, so that no sync waits for it.

use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use kernel::conntrack::{self, Conntrack, ConntrackError, Deleted, Filter, Flow};
use model::{Family, FlowTarget, Protocol, RecordedFlow, StaleFlows, StaleSet};

use crate::metrics::{FlowMetrics, PerFamily};

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
                pace.has_failed = all.iter().any(Remains::is_open);
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
        if !all.iter().any(Remains::is_open) {
            return None;
        }
        let Some((started, ended)) = self.last else { return Some(Duration::ZERO) };
        let rest = ended + ((ended - started) * REST_PER_COST).min(LONGEST_REST);
        let due = match all.iter().any(Remains::is_urgent) {
            _ if self.has_failed => ended + RETRY,
            true => rest,
            false => rest.max(started + HANDSHAKE),
        };
        Some(due.saturating_duration_since(now))
    }
}

/// What is still to be forgotten in one family.
struct Remains {
    family: Family,
    set: StaleSet,
    node_ips: Vec<IpAddr>,
    /// The protocols whose flows have to be walked.
    open: [bool; 3],
    metrics: FlowMetrics,
}

impl Remains {
    fn new(family: Family, metrics: FlowMetrics) -> Remains {
        Remains { family, set: StaleSet::default(), node_ips: Vec::new(), open: [false; 3], metrics }
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

    /// Walk the flows of every open protocol; one that fails stays open.
    fn clean(&mut self) {
        if !self.is_open() {
            return;
        }
        let (started, mut deleted) = (Instant::now(), 0);
        for protocol in PROTOCOLS {
            if self.open[protocol as usize] {
                let outcome = forget(self.family, protocol, &self.set, &self.node_ips);
                self.open[protocol as usize] = outcome.as_ref().is_err_and(may_pass);
                match &outcome {
                    Ok(done) => deleted += done.deleted,
                    Err(_) => self.metrics.failed(),
                }
                report(self.family, protocol, outcome);
            }
        }
        self.metrics.walked(started.elapsed(), deleted);
        if !self.is_open() {
            self.set = StaleSet::default();
        }
    }
}

/// Whether trying again may help.
fn may_pass(error: &ConntrackError) -> bool {
    !matches!(error, ConntrackError::Absent | ConntrackError::NotPermitted)
}

fn forget(
    family: Family,
    protocol: Protocol,
    set: &StaleSet,
    node_ips: &[IpAddr],
) -> Result<Deleted, ConntrackError> {
    let family = match family {
        Family::V4 => conntrack::Family::V4,
        Family::V6 => conntrack::Family::V6,
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
    use crate::metrics::Metrics;
    use config::FeatureGates;

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
}
