//! What a large service costs per sync grows in step with its size: its ports, its endpoints, its slices, its addresses.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use common::{MARK, node, pod_cidrs};
use dataplane::nftables::Nftables;
use dataplane::{Backend, Change, Committed, Reconciler, Setup, SyncError};
use kernel::nft::{Batch, CommitError, CounterReading, DumpedElement, Error, Table, Transport};
use model::*;
use model::{Planned, Planner};

/// A kernel that takes everything and holds nothing: what is left is our own work.
struct Sink;

impl Transport for Sink {
    fn commit(&mut self, _: &Batch) -> Result<(), CommitError> {
        Ok(())
    }
    fn generation(&mut self) -> Result<u32, Error> {
        Ok(0)
    }
    fn tables(&mut self, _: kernel::nft::TableFamily) -> Result<Vec<Table>, Error> {
        Ok(Vec::new())
    }
    fn sets(&mut self, _: kernel::nft::TableFamily, _: &str) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }
    fn chains(&mut self, _: kernel::nft::TableFamily, _: &str) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }
    fn set_size(&mut self, _: kernel::nft::TableFamily, _: &str, _: &str, _: usize) -> Result<usize, Error> {
        Ok(0)
    }

    fn dump_elements(
        &mut self,
        _: kernel::nft::TableFamily,
        _: &str,
        _: &str,
        _: &mut dyn FnMut(DumpedElement<'_>),
    ) -> Result<(), Error> {
        Ok(())
    }
    fn counters(
        &mut self,
        _: kernel::nft::TableFamily,
        _: &str,
        _: &mut dyn FnMut(CounterReading<'_>),
    ) -> Result<(), Error> {
        Ok(())
    }
}

/// A mode that does nothing: what is left is the reconciler's own work.
struct Idle;

impl Backend for Idle {
    fn rewrite(
        &mut self,
        _: Family,
        _: &HashMap<ServiceKey, ServicePlan>,
        _: &NodePlan,
    ) -> Result<Committed, SyncError> {
        Ok(Committed::default())
    }
    fn apply(
        &mut self,
        _: Family,
        _: &[Change<'_>],
        _: (&NodePlan, &NodePlan),
    ) -> Result<Committed, SyncError> {
        Ok(Committed::default())
    }
    fn configure(&mut self, _: Family, _: &Setup) -> bool {
        false
    }
    fn is_intact(&mut self, _: Family, _: &HashMap<ServiceKey, ServicePlan>, _: &NodePlan) -> bool {
        true
    }
    fn cleanup(&mut self, _: Family) -> Result<(), SyncError> {
        Ok(())
    }
}

/// One service with this many of each.
#[derive(Clone, Copy, Debug)]
struct Size {
    ports: usize,
    slices: usize,
    endpoints_per_slice: usize,
    external_ips: usize,
    policy: TrafficPolicy,
}

const SMALL: Size =
    Size { ports: 1, slices: 1, endpoints_per_slice: 1, external_ips: 0, policy: TrafficPolicy::Cluster };

struct Large {
    service: Service,
    ports: Vec<SlicePort>,
    slices: Vec<Vec<IpAddr>>,
    /// This one is left out.
    without: Option<IpAddr>,
    /// All but the first are on another node and meant for it.
    is_far: bool,
}

fn large(size: Size) -> Large {
    let numbers = 1..=u16::try_from(size.ports).unwrap();
    let address = |base: u32, n: usize| IpAddr::from(Ipv4Addr::from_bits(base + u32::try_from(n).unwrap()));
    let slice = |n: usize| {
        let first = n * size.endpoints_per_slice;
        (first..first + size.endpoints_per_slice).map(|n| address(0x0af4_0000, n)).collect()
    };
    let port = |n: u16| ServicePort {
        name: format!("p{n}").into(),
        protocol: Protocol::Udp,
        port: n,
        node_port: None,
    };
    let service = Service {
        ports: numbers.clone().map(port).collect(),
        external_ips: (0..size.external_ips).map(|n| address(0xc633_0000, n)).collect(),
        external_policy: size.policy,
        affinity_seconds: Some(60),
        ..common::service(1)
    };
    let at = |n: u16| SlicePort { name: format!("p{n}").into(), protocol: Protocol::Udp, port: n };
    let (ports, slices) = (numbers.map(at).collect(), (0..size.slices).map(slice).collect());
    Large { service, ports, slices, without: None, is_far: false }
}

impl Planner for Large {
    fn plan(&self, _: &ServiceKey, family: Family) -> Option<Planned> {
        let hints = ["here", "elsewhere"].map(|node| Hints { nodes: [node.into()].into(), zones: [].into() });
        let endpoint = |ip: &IpAddr| Endpoint {
            ip: *ip,
            ready: true,
            serving: true,
            terminating: false,
            node: Some(if self.is_far { "elsewhere" } else { "here" }),
            hints: self.is_far.then(|| &hints[usize::from(self.slices[0][0] != *ip)]),
        };
        let of = |ips: &Vec<IpAddr>| {
            ips.iter().filter(|ip| self.without != Some(**ip)).map(endpoint).collect::<Vec<_>>()
        };
        let slices: Vec<EndpointSlice<'_>> =
            self.slices.iter().map(|ips| EndpointSlice { ports: &self.ports, endpoints: of(ips) }).collect();
        let plan = model::plan(&self.service, &slices, &node(), &Settings::default(), family);
        Some(Planned { plan, created: 0 })
    }

    fn services(&self) -> Vec<ServiceKey> {
        vec!["default/large".into()]
    }

    fn node(&self, _: Family) -> NodePlan {
        NodePlan::default()
    }
}

/// The time this thread has had of a processor, which other work on the machine does not count towards.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// A rewrite, and a sync in which one endpoint goes; of a large service, a piece of it.
fn cost(size: Size, backend: impl Backend) -> Duration {
    let mut cluster = large(size);
    let mut reconciler = Reconciler::new(backend);
    let started = processor_time();
    let first = reconciler.sync(Family::V4, &[], &cluster).unwrap();
    cluster.without = cluster.slices[0].first().copied();
    let mut second = reconciler.sync(Family::V4, &cluster.services(), &cluster).unwrap();
    if let Some(service) = second.unfinished.pop() {
        second = reconciler.sync_piece(Family::V4, &service, &cluster).unwrap();
    }
    let took = processor_time() - started;
    assert!(first.full && second.services == 1 && !second.stale.is_empty());
    took
}

/// Four times the size may cost about four times as much; quadratic work would cost sixteen times as much. Rendering
/// is measured apart, or it would hide what planning costs.
fn grows_in_step(what: &str, of: impl Fn(usize) -> Size, small: usize) {
    let [small, large] = [of(small), of(small * 4)];
    ratio(&format!("{what}, planning"), 4, || cost(small, Idle), || cost(large, Idle));
    let render = |size| cost(size, Nftables::new(Sink, &pod_cidrs(), MARK).count_traffic(true));
    ratio(&format!("{what}, rendering"), 4, || render(small), || render(large));
}

/// What the large one costs, in units of the small one. Under load a processor is slower, for caches and cores are
/// shared, and a short measurement finds a quiet moment more easily than a long one. So the small one is done `repeated`
/// times in a row, which takes about as long as the large one should, and both are measured until they had such a moment.
/// What grows too fast stays above the limit in any number of rounds.
fn ratio(what: &str, repeated: u32, small: impl Fn() -> Duration, large: impl Fn() -> Duration) {
    const MOST: f64 = 8.0;
    const LEAST_ROUNDS: usize = 20;
    const PATIENCE: Duration = Duration::from_secs(60);
    let started = Instant::now();
    let mut best = [Duration::MAX; 2];
    for round in 0.. {
        let now = [(0..repeated).map(|_| small()).sum::<Duration>() / repeated, large()];
        best = [best[0].min(now[0]), best[1].min(now[1])];
        let ratio = best[1].as_secs_f64() / best[0].as_secs_f64();
        if ratio < MOST {
            return;
        }
        let is_enough = round >= LEAST_ROUNDS && started.elapsed() > PATIENCE;
        assert!(!is_enough, "{what}: the large one cost {ratio:.1} times as much: {best:?}");
    }
}

#[test]
fn cost_follows_the_number_of_ports() {
    grows_in_step("ports", |ports| Size { ports, endpoints_per_slice: 2, ..SMALL }, 4000);
}

#[test]
fn cost_follows_the_number_of_endpoints() {
    for policy in [TrafficPolicy::Cluster, TrafficPolicy::Local] {
        let of = |endpoints_per_slice| Size { endpoints_per_slice, external_ips: 1, policy, ..SMALL };
        grows_in_step("endpoints", of, 5000);
    }
}

#[test]
fn cost_follows_the_number_of_slices() {
    grows_in_step("slices", |slices| Size { slices, endpoints_per_slice: 10, ..SMALL }, 500);
}

#[test]
fn cost_follows_the_number_of_addresses() {
    let of = |external_ips| Size { external_ips, endpoints_per_slice: 2, ..SMALL };
    grows_in_step("addresses", of, 3000);
}

/// A question is answered by the sync thread.
#[test]
fn an_explanation_follows_the_number_of_endpoints() {
    let explain = |count: usize| {
        let cluster = large(Size { endpoints_per_slice: count, ..SMALL });
        let plan = cluster.plan(&"default/large".into(), Family::V4).unwrap().plan;
        let endpoint = |ip: &IpAddr| Endpoint {
            ip: *ip,
            ready: true,
            serving: true,
            terminating: false,
            node: Some("here"),
            hints: None,
        };
        let endpoints = cluster.slices[0].iter().map(endpoint).collect();
        let slices = [EndpointSlice { ports: &cluster.ports, endpoints }];
        let started = processor_time();
        let known = explain_endpoints(&plan.ports[0], Pool::Cluster, &slices, &node(), Family::V4);
        let took = processor_time() - started;
        assert_eq!(known.iter().filter(|one| one.used.is_ok()).count(), count);
        took
    };
    ratio("explained endpoints", 4, || explain(2_000), || explain(8_000));
}

/// Where few endpoints are left for this node, ports times endpoints is far more than the plan.
#[test]
fn ports_and_endpoints_do_not_multiply() {
    let far = |ports, slices, policy| {
        let mut cluster = large(Size { ports, slices, endpoints_per_slice: 1000, ..SMALL });
        cluster.service.internal_policy = policy;
        cluster.is_far = true;
        let started = processor_time();
        let plan = cluster.plan(&"default/large".into(), Family::V4).unwrap().plan;
        assert_eq!((plan.ports.len(), plan.excess), (ports, Excess::default()));
        assert!(plan.weight() <= 5 * ports);
        processor_time() - started
    };
    for policy in [TrafficPolicy::Local, TrafficPolicy::Cluster] {
        let apart = || far(20_000, 1, policy) + far(1, 50, policy);
        let together = || far(20_000, 50, policy);
        ratio(&format!("{policy:?}, ports times endpoints"), 1, apart, together);
    }
}
