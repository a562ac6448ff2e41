//! Forgetting recorded flows that became stale: a thread of its own, so that no sync waits for it.

use std::net::IpAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use kernel::conntrack::{self, Conntrack, ConntrackError, Deleted, Filter, Flow};
use model::{Family, FlowTarget, Protocol, RecordedFlow, StaleFlows, StaleSet};

/// With a rest of this many times the cost, walking the flow table takes at most a tenth of one core.
const REST_PER_COST: u32 = 9;
const LONGEST_REST: Duration = Duration::from_secs(1);

/// Flows that a sync left behind.
#[derive(Debug)]
pub(crate) struct StaleWork {
    pub(crate) family: Family,
    pub(crate) stale: Vec<StaleFlows>,
    /// Addresses that serve node ports.
    pub(crate) node_ips: Vec<IpAddr>,
}

/// Start the cleaner in the calling thread's network namespace.
pub(crate) fn start() -> std::io::Result<Sender<StaleWork>> {
    let (sender, receiver) = channel();
    std::thread::Builder::new().name("stale-flows".into()).spawn(move || clean(&receiver))?;
    Ok(sender)
}

fn clean(receiver: &Receiver<StaleWork>) {
    while let Ok(first) = receiver.recv() {
        // What piled up during the last pass is handled in one.
        let waiting: Vec<StaleWork> = std::iter::once(first).chain(receiver.try_iter()).collect();
        let started = Instant::now();
        for family in Family::BOTH {
            clean_family(family, waiting.iter().filter(|work| work.family == family));
        }
        drop(waiting);
        std::thread::sleep((started.elapsed() * REST_PER_COST).min(LONGEST_REST));
    }
}

fn clean_family<'a>(family: Family, works: impl Iterator<Item = &'a StaleWork>) {
    let mut set = StaleSet::default();
    let mut node_ips: &[IpAddr] = &[];
    let mut concerned = [false; 3];
    for work in works {
        for flows in &work.stale {
            concerned[flows.protocol as usize] = true;
            set.add(flows.clone());
        }
        node_ips = &work.node_ips;
    }
    for protocol in [Protocol::Udp, Protocol::Sctp, Protocol::Tcp] {
        if concerned[protocol as usize] {
            report(family, protocol, forget(family, protocol, &set, node_ips));
        }
    }
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
            %family, %protocol, examined = done.examined, deleted = done.deleted, "Forgot stale flows"
        ),
        Err(error) => tracing::error!(
            %family, %protocol, %error,
            "Could not forget stale flows; clients of removed endpoints may hang until their flow expires"
        ),
    }
}
