//! The server's history no longer reaches back to where the watch was.

use std::process::Command;

use conformance_support::Service;
use conformance_support::log::{end_of, lines};
use test_support::NodeAgent;

use crate::world::World;

/// The agent is held while the server forgets; what went and what came in between it can only learn from a list.
pub(crate) fn compacted(world: &mut World) {
    let (stays, goes, comes) =
        (Service::tcp("stays", 21), Service::tcp("goes", 22), Service::tcp("comes", 23));
    world.create(stays, "a");
    world.create(goes, "a");
    let agent = world.agent("expired");
    world.await_answer(stays, "a");
    world.await_answer(goes, "a");
    let traffic = world.traffic(stays);

    world.plane.apiserver.kill();
    let held = Held::new(&agent);
    world.plane.apiserver.start().unwrap();
    world.delete(goes);
    world.create(comes, "b");
    // What the server remembers itself goes with it, what etcd remembers goes by compaction.
    world.plane.etcd.compact().unwrap();
    world.plane.apiserver.kill();
    world.plane.apiserver.start().unwrap();
    drop(held);

    world.await_answer(comes, "b");
    world.await_silence(goes);
    let asked = traffic.finish();
    assert!(asked > 50, "only {asked} connections");
    let log = agent.log();
    let told = lines(&log, &["Last seen resource version is too old", "kind=\"Service\""]);
    assert_eq!(told.len(), 1, "{}", end_of(&log));
    world.point_at(stays, "b");
    world.await_answer(stays, "b");
}

/// A process that does not run until this is dropped.
struct Held(u32);

impl Held {
    fn new(agent: &NodeAgent) -> Held {
        signal("-STOP", agent.process());
        Held(agent.process())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        signal("-CONT", self.0);
    }
}

fn signal(name: &str, process: u32) {
    let status = Command::new("kill").arg(name).arg(process.to_string()).status();
    assert!(status.is_ok_and(|status| status.success()), "kill {name} {process}");
}
