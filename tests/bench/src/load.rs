//! One size: everything loaded at once, changed in small steps, and loaded again over what is there.

use agent::ClusterPlanner;
use cluster::{Change, ClusterState};
use dataplane::nftables::Nftables;
use dataplane::{Backend, Reconciler};
use kernel::netns::Namespace;
use kernel::nft::Monitor;
use model::{Family, LocalDetector, NodePortAddresses, NodeView, Settings};
use serde::{Deserialize, Serialize};

use crate::results::{FullLoad, SizeResult, Watched};
use crate::timed::Timed;
use crate::{Failure, changes, world};
use gauges::gauge::{Cost, Meter, Resident, Summary, kernel_memory_kib};

const MASQUERADE_MARK: u32 = 1 << 14;
const FULL_LOADS: usize = 5;

/// What to measure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Scope {
    pub(crate) services: u32,
    pub(crate) ipv6: bool,
    /// How often each small change is made; 0 for the full load alone.
    pub(crate) repetitions: u32,
}

pub(crate) fn measure(scope: &Scope) -> Result<SizeResult, Failure> {
    Namespace::new()?.try_run(|| measure_here(scope))?
}

fn measure_here(scope: &Scope) -> Result<SizeResult, Failure> {
    let family = if scope.ipv6 { Family::V6 } else { Family::V4 };
    let kernel_before = kernel_memory_kib();
    let mut bench = Bench::new(ClusterState::default())?;
    bench.state.apply(world::service_cidrs()?);
    for number in 0..scope.services {
        bench.state.apply(world::service(family, number));
        bench.state.apply(world::slice(family, number, 0, &world::pods(number)));
    }
    let state_only = Resident::of("self").unwrap_or_default();
    let (first, bytes) = bench.sync()?;
    let resident = Resident::of("self").unwrap_or_default();
    kernel::memory::give_back();
    let trimmed = Resident::of("self").unwrap_or_default();
    let kernel_kib = kernel_memory_kib().saturating_sub(kernel_before);

    let small = if scope.repetitions > 0 { Some(changes::measure(&mut bench, family, scope)?) } else { None };
    let restart = bench.repeat_loads(FULL_LOADS, Start::OverOld)?;
    let mut loads = vec![first];
    loads.extend(bench.repeat_loads(FULL_LOADS - 1, Start::Empty)?);
    let watched = if scope.repetitions > 0 { Some(bench.watched(family, scope)?) } else { None };
    bench.cleanup()?;
    let full =
        FullLoad { first, loads: Summary::of(&loads), bytes, state_only, resident, trimmed, kernel_kib };
    Ok(SizeResult {
        services: scope.services,
        endpoints: world::ENDPOINTS,
        ipv6: scope.ipv6,
        full,
        changes: small,
        restart: Summary::of(&restart),
        watched,
    })
}

/// What a full load finds in the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    Empty,
    OverOld,
}

/// A cluster state and the kernel that follows it, as in the agent but without its threads.
pub(crate) struct Bench {
    pub(crate) state: ClusterState,
    reconciler: Reconciler<Nftables<Timed>>,
    node: NodeView,
    count_traffic: bool,
}

impl Bench {
    pub(crate) fn new(state: ClusterState) -> Result<Bench, Failure> {
        let node = NodeView { name: world::NODE.into(), ..NodeView::default() };
        Ok(Bench { state, reconciler: reconciler(false)?, node, count_traffic: false })
    }

    /// With an empty state.
    pub(crate) fn counting(on: bool) -> Result<Bench, Failure> {
        let bench = Bench::new(ClusterState::default())?;
        Ok(Bench { reconciler: reconciler(on)?, count_traffic: on, ..bench })
    }

    /// Take the changes in and bring both families of the kernel up to date.
    pub(crate) fn apply(&mut self, changes: Vec<Change>) -> Result<Cost, Failure> {
        let meter = Meter::start();
        changes.into_iter().for_each(|change| self.state.change(change));
        self.commit()?;
        Ok(meter.stop(self.reconciler.backend().transport().take()))
    }

    /// Bring the kernel up to date; also says how many bytes that took.
    pub(crate) fn sync(&mut self) -> Result<(Cost, usize), Failure> {
        let meter = Meter::start();
        let bytes = self.commit()?;
        Ok((meter.stop(self.reconciler.backend().transport().take()), bytes))
    }

    fn commit(&mut self) -> Result<usize, Failure> {
        let dirty = self.state.dirty();
        let planner = ClusterPlanner {
            state: &self.state,
            node: &self.node,
            settings: &Settings::default(),
            nodeport_addresses: &NodePortAddresses::Primary,
            nodeports_on_loopback: false,
        };
        let mut bytes = 0;
        for family in Family::BOTH {
            bytes += self.reconciler.sync(family, &dirty.services, &planner)?.committed.bytes;
        }
        self.state.clear_dirty(&dirty);
        Ok(bytes)
    }

    /// Load everything anew, as after a restart of the agent.
    pub(crate) fn repeat_loads(&mut self, times: usize, start: Start) -> Result<Vec<Cost>, Failure> {
        let mut costs = Vec::with_capacity(times);
        for _ in 0..times {
            if start == Start::Empty {
                self.cleanup()?;
            }
            self.reconciler = reconciler(self.count_traffic)?;
            costs.push(self.sync()?.0);
        }
        Ok(costs)
    }

    /// The same again while somebody listens to changes: the kernel then writes notifications of ours too.
    fn watched(&mut self, family: Family, scope: &Scope) -> Result<Watched, Failure> {
        let mut loads = Vec::new();
        for _ in 0..FULL_LOADS {
            self.cleanup()?;
            self.reconciler = reconciler(self.count_traffic)?;
            let _monitor = Monitor::open(self.reconciler.backend().transport().port())?;
            loads.push(self.sync()?.0);
        }
        let _monitor = Monitor::open(self.reconciler.backend().transport().port())?;
        let replaced = changes::replace(self, family, scope)?;
        Ok(Watched { full: Summary::of(&loads), replaced })
    }

    pub(crate) fn cleanup(&mut self) -> Result<(), Failure> {
        Family::BOTH.into_iter().try_for_each(|family| self.reconciler.backend().cleanup(family))?;
        Ok(())
    }
}

fn reconciler(count_traffic: bool) -> Result<Reconciler<Nftables<Timed>>, Failure> {
    let pods = world::POD_CIDRS.iter().map(|net| net.parse()).collect::<Result<_, _>>()?;
    let backend = Nftables::new(Timed::open()?, &LocalDetector::Cidrs(pods), MASQUERADE_MARK);
    Ok(Reconciler::new(backend.count_traffic(count_traffic)))
}
