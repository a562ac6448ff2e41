//! Mode ipvs over a simulated machine: what it leaves behind, what it leaves alone, and what packets meet meanwhile.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

#[path = "../common/mod.rs"]
mod common;
mod counters;
mod damage;
mod draining;
mod gaps;
#[allow(dead_code, unreachable_pub, reason = "the library it is taken from uses all of it")]
#[path = "../../../../tests/scenarios/src/simulated/ipvs/ground.rs"]
mod ground;
mod inspected;
mod odd;
mod reconcile;

use std::collections::BTreeMap;

use common::{Fixture, MARK, pod_cidrs};
use dataplane::ipvs::Ipvs;
use dataplane::{Reconciler, Setup, Synced};
use ground::SimulatedGround;
use ipnet::IpNet;
use kernel::ipvs::{Destination, Protocol, Transport, VirtualServer};
use model::{Family, IpvsSettings, ModeSettings, Planner, ServiceKey};
use simulate::ipvs::{Machine, SharedMachine};

type Simulated = Reconciler<Ipvs<SharedMachine, SharedMachine, SimulatedGround<()>>>;

const PODS: [(&str, &str); 3] = [("10.244.1.11", "here"), ("10.244.1.12", "here"), ("10.244.2.21", "there")];

fn empty() -> SharedMachine {
    let mut machine = Machine::default();
    machine.ipvs.sysctls.expire_nodest_conn = true;
    machine.ipvs.sysctls.expire_quiescent_template = true;
    SharedMachine::new(machine)
}

/// An agent that starts on this machine.
fn over(machine: &SharedMachine, ipvs: IpvsSettings) -> Simulated {
    let setup = Setup {
        detector: pod_cidrs(),
        masquerade_mark: MARK,
        drop_invalid: true,
        of_mode: ModeSettings { ipvs, ..ModeSettings::default() },
    };
    let ground = SimulatedGround::new(machine.clone(), ());
    Reconciler::new(Ipvs::new(machine.clone(), machine.clone(), ground, &setup))
}

fn reconciler() -> Simulated {
    over(&empty(), IpvsSettings::default())
}

fn sync(reconciler: &mut Simulated, planner: &dyn Planner, dirty: &[&str]) -> Synced {
    let dirty: Vec<ServiceKey> = dirty.iter().map(|name| (*name).into()).collect();
    reconciler.sync_and_sweep(Family::V4, &dirty, planner).unwrap()
}

/// With everything in it.
fn synced() -> (Simulated, Fixture) {
    let (mut reconciler, fixture) = (reconciler(), Fixture::everything());
    sync(&mut reconciler, &fixture, &[]);
    (reconciler, fixture)
}

fn machine(reconciler: &mut Simulated) -> SharedMachine {
    reconciler.backend().servers().clone()
}

fn server(address: &str, port: u16) -> VirtualServer {
    VirtualServer { address: address.parse().unwrap(), protocol: Protocol::Tcp, port }
}

fn at(address: &str) -> Destination {
    Destination { address: address.parse().unwrap(), port: 8080 }
}

/// A virtual server with its destinations and their weights.
fn pool(machine: &SharedMachine, server: VirtualServer) -> Option<BTreeMap<Destination, u32>> {
    let mut machine = machine.machine();
    machine.ipvs.service(server).unwrap()?;
    let found = machine.ipvs.destinations(server).unwrap();
    Some(found.iter().map(|one| (one.destination, one.weight)).collect())
}

/// Virtual servers with their settings and destinations, and local routes.
fn held(machine: &SharedMachine) -> (BTreeMap<VirtualServer, String>, Vec<IpNet>) {
    let mut machine = machine.snapshot();
    let mut servers = BTreeMap::new();
    for found in machine.ipvs.services().unwrap() {
        let mut pool: Vec<String> = machine
            .ipvs
            .destinations(found.server)
            .unwrap()
            .iter()
            .map(|one| format!("{} {}", one.destination, one.weight))
            .collect();
        pool.sort();
        servers.insert(found.server, format!("{:?} {pool:?}", found.settings));
    }
    (servers, machine.routing.local)
}

/// The machine holds what a first sync of the same cluster would write.
fn assert_as_fresh(reconciler: &mut Simulated, planner: &dyn Planner, when: &str) {
    let mut fresh = self::reconciler();
    sync(&mut fresh, planner, &[]);
    assert_eq!(held(&machine(reconciler)), held(&machine(&mut fresh)), "{when}");
}

/// Looks until every port of every service was looked at; whether one of them found damage.
fn is_noticed(reconciler: &mut Simulated) -> bool {
    (0..60).any(|_| reconciler.check(Family::V4))
}
