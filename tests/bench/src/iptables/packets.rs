//! What the first packet of a connection costs: datagrams from a pod over the node to another pod, each of a new
//! flow, to the services in turn. Four nodes take turns: without rules, with one rule for all services, with the
//! yardstick's layout, and with ours.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use dataplane::iptables::Iptables;
use kernel::iptables::Tables;
use kernel::link::{Links, Route};
use model::Family;
use sandbox::{Sandbox, SandboxSpec};
use serde::{Deserialize, Serialize};

use super::tools::Tools;
use super::upstream::{JUMPS, Layout};
use crate::bench::Bench;
use crate::{Failure, world};
use bench_support::gauge::quantile;
use bench_support::variant::ToolVariant;

/// Flows of a burst, spread over all services.
const PACKETS: u32 = 500;
/// Each burst has ports of its own, so that a flow is new although services come again.
const FIRST_PORT: u16 = 20_000;
const ARRIVED: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Scope {
    pub(crate) variant: ToolVariant,
    pub(crate) services: u32,
    /// Bursts to each node.
    pub(crate) rounds: u16,
    /// Whether the yardstick has its chain for each endpoint.
    pub(crate) endpoint_chains: bool,
}

/// Nanoseconds of a packet's whole way, of the best burst: other work on the machine only adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FirstPacket {
    /// On a node without rules.
    pub(crate) bare_ns: f64,
    /// Tracked and rewritten by the one rule of its node: what any layout costs at least.
    pub(crate) least_ns: f64,
    pub(crate) upstream_ns: f64,
    pub(crate) ours_ns: f64,
}

impl FirstPacket {
    /// Ours as a part of upstream's: of the whole way.
    pub(crate) fn of_all(&self) -> f64 {
        self.less(0.0)
    }

    /// Of what the rules add to the way of a packet, tracking and rewriting included.
    pub(crate) fn of_rules(&self) -> f64 {
        self.less(self.bare_ns)
    }

    /// Of what is spent on finding the service and its endpoint.
    pub(crate) fn of_search(&self) -> f64 {
        self.less(self.least_ns)
    }

    fn less(&self, baseline: f64) -> f64 {
        (self.ours_ns - baseline).max(0.0) / (self.upstream_ns - baseline)
    }
}

pub(crate) fn measure(scope: &Scope) -> Result<FirstPacket, Failure> {
    let bare = Road::open()?;
    let least = Road::open()?;
    least.sandbox.node.try_run(|| load_least(scope))??;
    let upstream = Road::open()?;
    upstream.sandbox.node.try_run(|| load_upstream(scope))??;
    let ours = Road::open()?;
    ours.sandbox.node.try_run(|| load_ours(scope))??;
    let mut roads = [bare, least, upstream, ours];
    let mut bursts: [Vec<f64>; 4] = Default::default();
    for round in 0..=scope.rounds {
        for (road, bursts) in roads.iter_mut().zip(&mut bursts) {
            let ns = road.burst(round, scope.services)?;
            // The first one finds out who the neighbours are.
            bursts.extend((round > 0).then_some(ns));
        }
    }
    let [bare_ns, least_ns, upstream_ns, ours_ns] = bursts.map(|bursts| quantile(&bursts, 0.0));
    Ok(FirstPacket { bare_ns, least_ns, upstream_ns, ours_ns })
}

fn load_least(scope: &Scope) -> Result<(), Failure> {
    let (services, ip) = (world::SERVICE_CIDRS[0], world::pod_ip(Family::V4, 0));
    let port = world::POD_PORT;
    let rule =
        format!("*nat\n-A PREROUTING -d {services} -p udp -j DNAT --to-destination {ip}:{port}\nCOMMIT\n");
    Ok(Tools::find(scope.variant)?.restore(&rule)?)
}

fn load_upstream(scope: &Scope) -> Result<(), Failure> {
    let Scope { services, endpoint_chains, .. } = *scope;
    let mut tools = Tools::find(scope.variant)?;
    tools.restore(JUMPS)?;
    Ok(tools.restore(&Layout { services, protocol: "udp", endpoint_chains }.full())?)
}

fn load_ours(scope: &Scope) -> Result<(), Failure> {
    let mut bench: Bench<Iptables<Tools>> = Bench::iptables(scope.variant)?;
    bench.state.apply(world::service_cidrs()?);
    for number in 0..scope.services {
        bench.state.apply(world::over_udp(world::service(Family::V4, number)));
        let slice = world::slice(Family::V4, number, 0, &world::pods(number));
        bench.state.apply(world::over_udp(slice));
    }
    bench.sync().map(drop)
}

/// A node between a pod that sends and one where everything ends.
struct Road {
    sandbox: Sandbox,
    /// The interfaces of the pod where packets end.
    counters: File,
}

impl Road {
    fn open() -> Result<Road, Failure> {
        let names = ["from", "to"].map(str::to_owned);
        let sandbox = Sandbox::new(&SandboxSpec { local_pods: names.into(), remote_pods: Vec::new() })?;
        let end = sandbox.pod("to")?;
        sandbox.node.try_run(|| {
            let mut links = Links::open()?;
            // Services too: without rules a packet goes the same way.
            for net in [world::SERVICE_CIDRS[0], world::POD_CIDRS[0]] {
                links.add_route(&Route::via(net.parse()?, end.v4.into()))?;
            }
            Ok::<_, Failure>(())
        })??;
        let counters = end.namespace.try_run(|| File::open("/proc/thread-self/net/dev"))??;
        Ok(Road { sandbox, counters })
    }

    /// Nanoseconds a packet, until the last one has arrived.
    fn burst(&mut self, round: u16, services: u32) -> Result<f64, Failure> {
        let from = self.sandbox.pod("from")?;
        // A flow to each service at most from each port.
        let ports = u16::try_from(PACKETS.div_ceil(services))?;
        let bind = |port| UdpSocket::bind(SocketAddr::new(from.v4.into(), port));
        let first = FIRST_PORT + round * ports;
        let sockets =
            from.namespace.try_run(|| (first..first + ports).map(bind).collect::<Result<Vec<_>, _>>())??;
        let flows: Vec<(&UdpSocket, SocketAddr)> = (0..PACKETS)
            .map(|packet| (&sockets[(packet / services) as usize], target(round, packet, services)))
            .collect();
        let before = self.received()?;
        let started = Instant::now();
        for (socket, target) in flows {
            socket.send_to(b"packet", target)?;
        }
        while self.received()? < before + u64::from(PACKETS) {
            if started.elapsed() > ARRIVED {
                return Err("packets were lost on the way through the rules".into());
            }
        }
        Ok(started.elapsed().as_secs_f64() * 1e9 / f64::from(PACKETS))
    }

    fn received(&mut self) -> Result<u64, Failure> {
        let mut text = String::new();
        self.counters.rewind()?;
        self.counters.read_to_string(&mut text)?;
        Ok(packets_received(&text).ok_or("the pod has no eth0")?)
    }
}

/// Evenly over all services, and over others in the next round.
fn target(round: u16, packet: u32, services: u32) -> SocketAddr {
    let step = (services / PACKETS).max(1);
    let service = (packet * step + u32::from(round)) % services;
    SocketAddr::new(world::cluster_ip(Family::V4, service), world::SERVICE_PORT)
}

fn packets_received(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix("eth0:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_go_to_services_everywhere_in_the_list() {
        let targets: std::collections::BTreeSet<_> =
            (0..PACKETS).map(|packet| target(0, packet, 10_000)).collect();
        assert_eq!(targets.len(), PACKETS as usize);
        assert_eq!(target(0, 0, 10_000).ip(), world::cluster_ip(Family::V4, 0));
        assert_eq!(target(0, PACKETS - 1, 10_000).ip(), world::cluster_ip(Family::V4, 9_980));
        assert_eq!(target(7, PACKETS - 1, 10_000).ip(), world::cluster_ip(Family::V4, 9_987));
    }

    #[test]
    fn received_packets_are_the_second_number() {
        let text = "Inter-| Receive\n face |bytes packets\n  lo: 1 2 3\n  eth0: 4000 50 0 0\n";
        assert_eq!(packets_received(text), Some(50));
        assert_eq!(packets_received("  lo: 1 2 3\n"), None);
    }

    #[test]
    fn a_baseline_is_taken_from_both() {
        let packet = FirstPacket { bare_ns: 10.0, least_ns: 20.0, upstream_ns: 120.0, ours_ns: 30.0 };
        assert_eq!(packet.of_all(), 30.0 / 120.0);
        assert_eq!(packet.of_rules(), 20.0 / 110.0);
        assert_eq!(packet.of_search(), 10.0 / 100.0);
    }
}
