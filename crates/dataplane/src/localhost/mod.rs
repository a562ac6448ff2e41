//! Node ports on loopback addresses, for modes whose rules cannot serve them: no NAT leads from 127.0.0.1 to a pod without
//! `route_localnet`, and none from ::1 at all. The agent listens there itself and carries what comes to the endpoints.
//!
//! Any mode asks for it by wrapping its backend. Nothing is started before the first listener is needed.

mod left_out;
mod listeners;
mod metrics;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use model::{Change, Family, NodePlan, Protocol, ServiceKey, ServicePlan};

use forwarder::{Ending, Forwarder, Refused};
use listeners::Listeners;

use crate::backend::{Backend, Committed, Farewell, Setup, SyncError};
use crate::shortfall::Shortfall;

pub(crate) use metrics::{GATED, collector};

/// A mode whose node ports are served on loopback addresses, too.
pub(crate) struct Listening<B> {
    mode: B,
    forwarder: Starting,
    listeners: [Listeners; 2],
    figures: Arc<Figures>,
    udp_idle: Duration,
}

/// What is measured.
#[derive(Default)]
pub(crate) struct Figures {
    pub(super) open: [AtomicUsize; 2],
    pub(super) left_out: [AtomicUsize; 2],
    pub(super) failures: [AtomicU64; 2],
    forwarder: OnceLock<Arc<Ending>>,
}

impl Figures {
    /// Whether there is a listener, or was.
    pub(super) fn are_there(&self) -> bool {
        self.forwarder.get().is_some()
    }

    /// Clients that were turned away.
    pub(super) fn rejected(&self, family: Family, protocol: Protocol) -> u64 {
        let count = |forwarder: &Arc<Ending>| {
            let count = forwarder.shared.counts.of(family, protocol);
            Refused::ALL.iter().map(|why| count.refused(*why)).sum()
        };
        self.forwarder.get().map_or(0, count)
    }
}

/// The forwarder, from the first listener on.
#[derive(Default)]
enum Starting {
    #[default]
    NotNeeded,
    /// It could not start: when to try again, and how long to wait after that.
    Failed(Instant, Duration),
    Runs(Forwarder),
}

const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(300);

impl Starting {
    /// Start it if it is time to. Failures are logged once.
    fn start(&mut self, start: impl FnOnce() -> std::io::Result<Forwarder>) -> Option<&Forwarder> {
        let now = Instant::now();
        let delay = match self {
            Starting::NotNeeded => FIRST_DELAY,
            Starting::Failed(until, delay) if *until <= now => *delay,
            Starting::Failed(..) => return None,
            Starting::Runs(forwarder) => return Some(forwarder),
        };
        let is_first = matches!(self, Starting::NotNeeded);
        *self = match start() {
            Ok(forwarder) => Starting::Runs(forwarder),
            Err(error) => {
                if is_first {
                    tracing::error!(
                        %error, "Failed to start the forwarder; node ports on loopback addresses are not served, retrying"
                    );
                }
                Starting::Failed(now + delay, (delay * 2).min(LONGEST_DELAY))
            }
        };
        if !is_first && self.running().is_some() {
            tracing::info!(
                "Resolved: the forwarder has started; node ports on loopback addresses are served"
            );
        }
        self.running()
    }

    fn running(&self) -> Option<&Forwarder> {
        match self {
            Starting::Runs(forwarder) => Some(forwarder),
            Starting::NotNeeded | Starting::Failed(..) => None,
        }
    }
}

impl<B> Listening<B> {
    pub(crate) fn new(mode: B, setup: &Setup) -> Listening<B> {
        let figures = Arc::new(Figures::default());
        let listeners = Family::BOTH.map(|family| Listeners::new(family, figures.clone()));
        let udp_idle = setup.of_mode.udp_idle();
        Listening { mode, forwarder: Starting::default(), listeners, figures, udp_idle }
    }

    pub(crate) fn figures(&self) -> Arc<Figures> {
        self.figures.clone()
    }

    /// Listen for just these services.
    fn listen(&mut self, family: Family, plans: &HashMap<ServiceKey, ServicePlan>, node: &NodePlan) {
        let is_needed = self.forwarder.running().is_some() || !node.nodeport_listeners.is_empty();
        if is_needed && let Some(forwarder) = self.forwarder.start(|| Forwarder::start(2 * listeners::MOST)) {
            forwarder.shared.set_udp_idle(self.udp_idle);
            let _is_known = self.figures.forwarder.set(forwarder.ending.clone());
            forwarder.shared.directory.replace(family, plans, node);
            self.listeners[family.index()].replace(forwarder, plans, node);
        }
    }
}

impl<B: Backend> Backend for Listening<B> {
    fn base(&self) -> Option<&dyn Backend> {
        Some(&self.mode)
    }

    fn base_mut(&mut self) -> Option<&mut dyn Backend> {
        Some(&mut self.mode)
    }

    fn rewrite(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> Result<Committed, SyncError> {
        self.listen(family, plans, node);
        self.mode.rewrite(family, plans, node)
    }

    fn apply(
        &mut self,
        family: Family,
        changes: &[Change<'_>],
        node: (&NodePlan, &NodePlan),
    ) -> Result<Committed, SyncError> {
        if let Some(forwarder) = self.forwarder.running() {
            forwarder.shared.directory.take_in(family, changes, node.1);
            forwarder.shared.directory.let_go(family, changes);
            self.listeners[family.index()].apply(forwarder, changes, &node.1.nodeport_listeners);
        }
        self.mode.apply(family, changes, node)
    }

    /// With other addresses every node port has other listeners.
    fn is_rewritten_for(&self, before: &NodePlan, after: &NodePlan) -> bool {
        before.nodeport_listeners != after.nodeport_listeners || self.mode.is_rewritten_for(before, after)
    }

    fn take_shortfalls(&mut self, family: Family) -> Vec<Shortfall> {
        let mut shortfalls = self.mode.take_shortfalls(family);
        shortfalls.extend(self.listeners[family.index()].take_shortfalls());
        shortfalls
    }

    fn configure(&mut self, family: Family, setup: &Setup) -> bool {
        self.udp_idle = setup.of_mode.udp_idle();
        if let Some(forwarder) = self.forwarder.running() {
            forwarder.shared.set_udp_idle(self.udp_idle);
        }
        self.mode.configure(family, setup)
    }

    fn is_intact(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> bool {
        match self.forwarder.running() {
            Some(forwarder) => self.listeners[family.index()].retry(forwarder),
            None => self.listen(family, plans, node),
        }
        self.mode.is_intact(family, plans, node)
    }

    fn farewell(&self) -> Option<Farewell> {
        let figures = self.figures.clone();
        Some(Box::new(move |deadline| {
            figures.forwarder.get().into_iter().for_each(|ending| ending.by(deadline))
        }))
    }

    fn cleanup(&mut self, family: Family) -> Result<(), SyncError> {
        self.mode.cleanup(family)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forwarder_that_cannot_start_is_tried_again_later() {
        let mut starting = Starting::default();
        let fail = || Err(std::io::ErrorKind::OutOfMemory.into());
        assert!(starting.start(fail).is_none());
        assert!(starting.start(|| panic!("it is too early")).is_none());
        let Starting::Failed(until, delay) = &mut starting else { panic!("it has not failed") };
        assert_eq!(*delay, FIRST_DELAY * 2);
        *until = Instant::now();
        assert!(starting.start(fail).is_none());
        assert!(matches!(starting, Starting::Failed(_, delay) if delay == FIRST_DELAY * 4));
    }
}
