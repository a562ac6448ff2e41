//! A cluster state and the kernel that follows it, as in the agent but without its threads.

use std::time::Duration;

use cluster::{ClusterPlanner, ClusterState, ObjectChange};
use dataplane::{Backend, Reconciler};
use model::{Family, NodePortAddresses, NodeView, Settings};

use crate::{Failure, world};
use bench_support::gauge::{Cost, Meter};

/// A backend that remembers how long its commits took.
pub(crate) trait Clocked: Backend {
    /// The time spent in commits since this was asked last.
    fn take(&mut self) -> Duration;
}

/// What a full load finds in the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    Empty,
    OverOld,
}

pub(crate) struct Bench<B> {
    pub(crate) state: ClusterState,
    pub(crate) reconciler: Reconciler<B>,
    /// What the last commit took.
    pub(crate) bytes: usize,
    node: NodeView,
    make: Box<dyn Fn() -> Result<B, Failure>>,
}

impl<B: Clocked> Bench<B> {
    /// With an empty state; `make` makes the backend of an agent that has just started.
    pub(crate) fn new(make: impl Fn() -> Result<B, Failure> + 'static) -> Result<Bench<B>, Failure> {
        let node = NodeView { name: world::NODE.into(), ..NodeView::default() };
        let reconciler = Reconciler::new(make()?);
        Ok(Bench { state: ClusterState::default(), reconciler, bytes: 0, node, make: Box::new(make) })
    }

    /// Take the changes in and bring both families of the kernel up to date.
    pub(crate) fn apply(&mut self, changes: Vec<ObjectChange>) -> Result<Cost, Failure> {
        let meter = Meter::start();
        changes.into_iter().for_each(|change| self.state.change(change));
        self.commit()?;
        Ok(meter.stop(self.reconciler.backend().take()))
    }

    /// Bring the kernel up to date; also says how many bytes that took.
    pub(crate) fn sync(&mut self) -> Result<(Cost, usize), Failure> {
        let meter = Meter::start();
        self.commit()?;
        Ok((meter.stop(self.reconciler.backend().take()), self.bytes))
    }

    fn commit(&mut self) -> Result<(), Failure> {
        let dirty = self.state.take_dirty();
        let planner = ClusterPlanner {
            state: &self.state,
            node: &self.node,
            settings: &Settings::default(),
            nodeport_addresses: &NodePortAddresses::Primary,
            nodeports_on_loopback: model::OnLoopback::Never,
        };
        self.bytes = 0;
        for family in Family::BOTH {
            self.bytes += self.reconciler.sync_and_sweep(family, &dirty.services, &planner)?.committed.bytes;
        }
        Ok(())
    }

    /// As a new agent would begin, over what is there.
    pub(crate) fn restart(&mut self) -> Result<(), Failure> {
        self.reconciler = Reconciler::new((self.make)()?);
        Ok(())
    }

    /// Load everything again, as after a restart of the agent.
    pub(crate) fn repeat_loads(&mut self, times: usize, start: Start) -> Result<Vec<Cost>, Failure> {
        let mut costs = Vec::with_capacity(times);
        for _ in 0..times {
            if start == Start::Empty {
                self.cleanup()?;
            }
            self.restart()?;
            costs.push(self.sync()?.0);
        }
        Ok(costs)
    }

    pub(crate) fn cleanup(&mut self) -> Result<(), Failure> {
        Family::BOTH.into_iter().try_for_each(|family| self.reconciler.backend().cleanup(family))?;
        Ok(())
    }
}
