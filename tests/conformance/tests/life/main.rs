//! The agent's life with a real apiserver: restarts, outages, lost history, new tokens, missing rights, and services that
//! are changed in every way ([`objects`]).
//!
//! Two control planes side by side, one that sends lists as streams and one that refuses to; on each, the cases run
//! one after the other. Services are asked with real packets. Changes of services then have a third plane and one agent
//! that lives through all of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bad_input;
mod cycle;
mod expired;
mod handover;
mod handover_iptables;
mod handover_ipvs;
mod metrics;
mod objects;
mod odd_objects;
mod outage;
mod rights;
mod token;
mod world;

use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

use conformance_support::Kit;
use test_support::{Case, Report, Verdict};
use world::World;

type Run = fn(&mut World);

/// The longest first, so that both planes end together.
const CASES: &[(&str, Run)] = &[
    ("30 s without an apiserver, under traffic", outage::long),
    ("an apiserver that is killed and comes back", outage::killed),
    ("a start while the apiserver is down", outage::started_without),
    ("a history that is too short for the watch", expired::compacted),
    ("a token that is replaced", token::replaced),
    ("a kind that RBAC forbids", rights::forbidden),
    ("created, changed and deleted, in protobuf", cycle::protobuf),
    ("created, changed and deleted, in JSON", cycle::json),
    ("annotations that are not text", odd_objects::annotations),
];

/// These do not depend on how lists are sent.
const ONCE: &[(&str, Run)] = &[
    ("upstream takes over from us, and we from upstream", handover::there_and_back),
    ("upstream takes over from us, and we from upstream, iptables-legacy", handover_iptables::legacy),
    ("upstream takes over from us, and we from upstream, iptables-nft", handover_iptables::nft),
    ("we take over from upstream, and upstream from us, ipvs", handover_ipvs::there_and_back),
    ("metrics in the shape of upstream's", metrics::as_upstream),
    ("a kubeconfig that cannot be used", bad_input::kubeconfigs),
    ("a server that is not there", bad_input::dead_server),
    ("a client certificate, and an exec plugin", token::ways),
    ("a token that is rejected", bad_input::rejected_token),
    ("a certificate of another authority", bad_input::other_authority),
];

fn main() -> ExitCode {
    let mut report = Report::from_args();
    let kit = Kit::find_for(&report);
    let planes = [Plane::new("streams", true), Plane::new("pages", false)];
    let mut cases = Vec::new();
    for (name, run) in CASES {
        cases.extend(planes.iter().map(|plane| plane.case(&kit, name, *run)));
    }
    cases.extend(
        ONCE.iter().zip(planes.iter().cycle()).map(|((name, run), plane)| plane.case(&kit, name, *run)),
    );
    report.run(&cases, planes.len());
    drop(cases);
    // Their processes would only be in the way of what follows.
    drop(planes);
    objects::run(&mut report);
    report.finish()
}

/// A control plane that is started when the first case needs it.
struct Plane {
    name: &'static str,
    streaming_lists: bool,
    world: Mutex<Option<World>>,
}

impl Plane {
    fn new(name: &'static str, streaming_lists: bool) -> Plane {
        Plane { name, streaming_lists, world: Mutex::new(None) }
    }

    fn case<'a>(&'a self, kit: &'a Result<Kit, Verdict>, name: &str, run: Run) -> Case<'a> {
        conformance_support::case(format!("{}: {name}", self.name), kit, move |kit| {
            let mut world = self.lock();
            let world = world.get_or_insert_with(|| World::start(kit, self.streaming_lists));
            world.mend();
            run(world);
        })
    }

    /// A case that failed leaves a world that can be repaired.
    fn lock(&self) -> MutexGuard<'_, Option<World>> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
