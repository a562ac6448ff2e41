//! One size: everything loaded at once, changed in small steps, and loaded again over what is there.

use std::time::Duration;

use dataplane::nftables::{Nftables, TABLE_NAME};
use kernel::netns::Namespace;
use kernel::nft::Monitor;
use model::{Family, LocalDetector};
use serde::{Deserialize, Serialize};

use crate::bench::{Bench, Clocked, Start};
use crate::results::{FullLoad, SizeResult, Watched};
use crate::timed::Timed;
use crate::{Failure, changes, world};
use bench_support::gauge::{Resident, Summary, kernel_memory_kib};

pub(crate) const MASQUERADE_MARK: u32 = 1 << 14;
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
    let mut bench = Bench::nftables(false)?;
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

impl Bench<Nftables<Timed>> {
    pub(crate) fn nftables(count_traffic: bool) -> Result<Bench<Nftables<Timed>>, Failure> {
        Bench::new(move || {
            let backend = Nftables::new(Timed::open()?, &detector()?, MASQUERADE_MARK);
            Ok(backend.count_traffic(count_traffic))
        })
    }

    /// The same again while a process listens to changes: the kernel then writes notifications of ours too.
    fn watched(&mut self, family: Family, scope: &Scope) -> Result<Watched, Failure> {
        let mut loads = Vec::new();
        for _ in 0..FULL_LOADS {
            self.cleanup()?;
            self.restart()?;
            let _monitor = Monitor::open(self.reconciler.backend().transport().port(), Some(TABLE_NAME))?;
            loads.push(self.sync()?.0);
        }
        let _monitor = Monitor::open(self.reconciler.backend().transport().port(), Some(TABLE_NAME))?;
        let replaced = changes::replace(self, family, scope)?;
        Ok(Watched { full: Summary::of(&loads), replaced })
    }
}

impl Clocked for Nftables<Timed> {
    fn take(&mut self) -> Duration {
        self.transport().take()
    }
}

pub(crate) fn detector() -> Result<LocalDetector, Failure> {
    let pods = world::POD_CIDRS.iter().map(|net| net.parse()).collect::<Result<_, _>>()?;
    Ok(LocalDetector::Cidrs(pods))
}
