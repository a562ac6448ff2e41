//! Mode userspace beside HAProxy and beside the direct path, in the same namespaces: one stream, short connections, many
//! connections, slow readers, endpoints that are killed, and UDP clients.

mod load;
mod parts;
mod scene;
mod server;
mod verdict;

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::{Failure, report};
use parts::{Killed, Leak, SlowReaders, Udp};
use scene::{Scene, Service};

pub(crate) use parts::Crowd;
pub(crate) use verdict::{judge, judge_crowd, print, print_crowd};

/// How much of everything.
struct Scale {
    rounds: usize,
    each: Duration,
    short: usize,
    crowd: usize,
    slow_readers: usize,
    held: usize,
    udp_clients: usize,
}

const WHOLE: Scale = Scale {
    rounds: 5,
    each: Duration::from_secs(2),
    short: 100_000,
    crowd: 10_000,
    slow_readers: 1_000,
    held: 600,
    udp_clients: 20_000,
};

/// In less than a minute.
const QUICK: Scale = Scale {
    rounds: 4,
    each: Duration::from_millis(800),
    short: 5_000,
    crowd: 2_000,
    slow_readers: 200,
    held: 150,
    udp_clients: 2_000,
};

#[derive(Debug, Serialize)]
pub(crate) struct UserspaceResult {
    /// Of TCP, in all namespaces.
    congestion_control: String,
    direct: Way,
    haproxy: Option<Way>,
    forwarder: Way,
    leak: Leak,
    slow_readers: SlowReaders,
    killed: Killed,
    udp: Udp,
}

/// The best of several rounds: other work on the machine only makes them slower.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Way {
    /// Of one stream.
    gigabits: f64,
    /// Short connections per second.
    connections: f64,
}

impl Way {
    fn add(&mut self, scene: &Scene, to: std::net::SocketAddr, each: Duration) -> Result<(), Failure> {
        let gigabits = load::stream(scene.connect(to)?, each)?;
        let connections = load::short_connections(scene.caller()?, to, parts::THREADS, each)?;
        self.gigabits = self.gigabits.max(gigabits);
        self.connections = self.connections.max(connections);
        Ok(())
    }
}

/// Many connections at once, in an agent that has carried none before: memory that was used and freed would hide theirs.
pub(crate) fn measure_crowd(
    kube_proxy: &Path,
    quick: bool,
    skipped: &mut Vec<String>,
) -> Result<Crowd, Failure> {
    let scale = if quick { QUICK } else { WHOLE };
    let scene = Scene::set(kube_proxy)?;
    report::note("many connections at once");
    let crowd = parts::weigh(&scene, scale.crowd)?;
    if crowd.count < crowd.wanted {
        skipped.push(format!(
            "userspace: {} open connections need a higher limit of open files; measured with {}",
            crowd.wanted, crowd.count
        ));
    }
    Ok(crowd)
}

pub(crate) fn measure(
    kube_proxy: &Path,
    quick: bool,
    skipped: &mut Vec<String>,
) -> Result<UserspaceResult, Failure> {
    let scale = if quick { QUICK } else { WHOLE };
    let mut scene = Scene::set(kube_proxy)?;
    report::note("the direct path, HAProxy and mode userspace");
    let started = scene.start_haproxy();
    if let Err(why) = &started {
        skipped.push(format!("userspace: HAProxy: {why}"));
    }
    // In turns, so that a busy moment of the machine hits all of them.
    let (mut direct, mut haproxy, mut forwarder) = (Way::default(), Way::default(), Way::default());
    for _ in 0..scale.rounds {
        direct.add(&scene, scene.direct(), scale.each)?;
        if started.is_ok() {
            haproxy.add(&scene, scene.haproxy(), scale.each)?;
        }
        forwarder.add(&scene, Service::Web.at(), scale.each)?;
    }
    report::note("short connections without a leak");
    let leak = parts::leak(&scene, scale.short)?;
    report::note("slow readers");
    let slow_readers = parts::slow_readers(&scene, scale.slow_readers, scale.each)?;
    report::note("UDP clients");
    let udp = parts::udp(&scene, scale.udp_clients)?;
    report::note("an endpoint that is killed");
    let killed = parts::kill(&mut scene, scale.held)?;
    let haproxy = started.is_ok().then_some(haproxy);
    let congestion_control = scene.congestion_control.clone();
    Ok(UserspaceResult { congestion_control, direct, haproxy, forwarder, leak, slow_readers, killed, udp })
}
