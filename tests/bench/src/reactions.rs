//! How soon the real agent reacts, in every mode: to a change of endpoints, to rules that another process removed, and to
//! SIGTERM. The tests only say that it does.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use model::{Family, Protocol};
use sandbox::{Sandbox, SandboxSpec, Server, address, probe};
use serde::Serialize;
use test_support::{
    Carrier, EndpointManifest, ManifestFolder, NodeAgent, SOON, ServiceManifest, SliceManifest, manifest,
    tools, wait_until,
};

use crate::results::Limit;
use crate::{Failure, report, world};
use bench_support::gauge::quantile;
use bench_support::table::{self, row, time};

const CALLER: &str = "caller";
/// The two pods that answer in turn.
const SERVERS: [&str; 2] = ["a", "b"];
const POD_PORT: u16 = 8080;
const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 200, 1));
/// For one question; failures are recognised long before.
const ANSWER: Duration = Duration::from_millis(50);
/// The pause after a costly sync would be measured instead; and what looks for damage must not look ever less often.
const FLAGS: [&str; 2] = ["--iptables-min-sync-period=100ms", "--iptables-sync-period=1s"];

/// Worst case of mode nftables, in which the kernel tells of changes; in others the agent looks once a second.
const REPAIR_MS: [f64; 2] = [1_000.0, 2_000.0];
const CHANGE_MS: f64 = 100.0;
const STOP_MS: f64 = 1_000.0;

#[derive(Debug, Serialize)]
pub(crate) struct ReactionResult {
    mode: &'static str,
    is_told: bool,
    change_ms: Vec<f64>,
    repair_ms: Vec<f64>,
    stop_ms: Vec<f64>,
}

pub(crate) fn measure(
    kube_proxy: &Path,
    quick: bool,
    skipped: &mut Vec<String>,
) -> Result<Vec<ReactionResult>, Failure> {
    let mut results = Vec::new();
    for carrier in Carrier::ALL {
        match carrier.obstacle() {
            Some(why) => skipped.push(format!("reactions: {why}")),
            None => {
                report::note(&format!("reactions in mode {}", carrier.name()));
                results.push(Scene::set(kube_proxy, carrier)?.measure(if quick { 5 } else { 15 })?);
            }
        }
    }
    Ok(results)
}

/// Parts are dropped in this order.
struct Scene {
    agent: NodeAgent,
    _servers: Vec<Server>,
    folder: ManifestFolder,
    sandbox: Sandbox,
    carrier: Carrier,
}

impl Scene {
    fn set(kube_proxy: &Path, carrier: Carrier) -> Result<Scene, Failure> {
        let pods = [CALLER].into_iter().chain(SERVERS).map(str::to_owned).collect();
        let sandbox = Sandbox::new(&SandboxSpec { local_pods: pods, remote_pods: Vec::new() })?;
        // Without rules its packets go out to the client, who refuses them at once.
        sandbox.add_client_address(VIP)?;
        let mut servers = Vec::new();
        for name in SERVERS {
            let pod = sandbox.pod(name)?;
            servers.push(Server::tcp(&pod.namespace, name, SocketAddr::new(pod.v4.into(), POD_PORT))?);
        }
        let folder = ManifestFolder::create();
        folder.put("node", &manifest::node(world::NODE, "zone-1", &[address::NODE_V4.into()]));
        folder.put_service(&ServiceManifest::new("web", &[VIP]).port("main", Protocol::Tcp, 80, 0));
        point_at(&sandbox, &folder, "a")?;
        carrier.prepare(&sandbox.node, &folder.lock())?;
        let mut flags = carrier.flags();
        flags.extend(FLAGS.map(str::to_owned));
        flags.push(format!("--cluster-cidr={}", address::CLUSTER_V4));
        let agent = NodeAgent::start(kube_proxy, &sandbox.node, &folder, world::NODE, &flags)?;
        Ok(Scene { agent, _servers: servers, folder, sandbox, carrier })
    }

    fn measure(mut self, times: usize) -> Result<ReactionResult, Failure> {
        let (mut change_ms, mut repair_ms, mut stop_ms) = (Vec::new(), Vec::new(), Vec::new());
        self.await_answer("a")?;
        for turn in 1..=times {
            let pod = SERVERS[turn % 2];
            let changed = Instant::now();
            point_at(&self.sandbox, &self.folder, pod)?;
            self.await_answer(pod)?;
            change_ms.push(millis(changed));
        }
        for _ in 0..times {
            let repaired = || self.agent.log().matches("full=true").count();
            let before = repaired();
            let damaged = Instant::now();
            self.damage()?;
            self.await_answer(SERVERS[times % 2])?;
            repair_ms.push(millis(damaged));
            // What comes between the agent's writing and its noting what it wrote is found by a rarer look.
            if !wait_until(SOON, || repaired() > before) {
                return Err("the agent does not log that it rewrote the rules".into());
            }
        }
        for _ in 0..times {
            let asked = Instant::now();
            self.agent.stop()?;
            stop_ms.push(millis(asked));
            self.agent.restart()?;
        }
        let is_told = matches!(self.carrier, Carrier::Nftables | Carrier::Ipvs | Carrier::Userspace);
        Ok(ReactionResult { mode: self.carrier.name(), is_told, change_ms, repair_ms, stop_ms })
    }

    /// What another process does to the rules: none of ours is left in force.
    fn damage(&self) -> Result<(), Failure> {
        let node = &self.sandbox.node;
        match self.carrier {
            Carrier::Nftables | Carrier::Ipvs | Carrier::Userspace => {
                let mut command = Command::new("nft");
                command.args(["delete", "table", "ip", "kube-proxy"]);
                node.enter(&mut command)?;
                match command.status()?.success() {
                    true => Ok(()),
                    false => Err("nft does not delete the table".into()),
                }
            }
            Carrier::IptablesLegacy | Carrier::IptablesNft => {
                let flush = ["-t", "nat", "-F"];
                tools::run(node, &self.folder.lock(), &self.carrier.tool(false, ""), &flush, "")?;
                Ok(())
            }
        }
    }

    fn await_answer(&self, by: &str) -> Result<(), Failure> {
        let caller = &self.sandbox.pod(CALLER)?.namespace;
        let to = SocketAddr::new(VIP, 80);
        match wait_until(SOON, || probe::tcp(caller, None, to, ANSWER).by() == Some(by)) {
            true => Ok(()),
            false => Err(format!("{by} never answers; the log:\n{}", self.agent.log()).into()),
        }
    }
}

fn point_at(sandbox: &Sandbox, folder: &ManifestFolder, pod: &str) -> Result<(), Failure> {
    let endpoint = EndpointManifest::new(sandbox.pod(pod)?.v4.into(), world::NODE);
    let slice = SliceManifest::new("web", "1", Family::V4).port("main", Protocol::Tcp, POD_PORT);
    folder.put_slice(&slice.endpoint(&endpoint));
    Ok(())
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

pub(crate) fn judge(results: &[ReactionResult]) -> Vec<Limit> {
    let mut limits = Vec::new();
    for result in results {
        let mut push = |what: &str, measured: f64, limit: f64| {
            limits.push(Limit {
                what: format!("{}: {what}", result.mode),
                measured: format!("{measured:.1} ms"),
                limit: format!("at most {limit} ms"),
                kept: measured <= limit,
            });
        };
        if result.is_told {
            push("a change until traffic follows, median", quantile(&result.change_ms, 0.5), CHANGE_MS);
            push("a repair, the slowest", quantile(&result.repair_ms, 1.0), REPAIR_MS[0]);
        } else {
            push("a repair, median", quantile(&result.repair_ms, 0.5), REPAIR_MS[1]);
        }
        push("SIGTERM until the end, the slowest", quantile(&result.stop_ms, 1.0), STOP_MS);
    }
    limits
}

pub(crate) fn print(results: &[ReactionResult]) {
    if results.is_empty() {
        return;
    }
    let mut rows = vec![row(["mode", "change", "slowest", "repair", "slowest", "SIGTERM", "slowest"])];
    for result in results {
        let mut cells = vec![result.mode.to_owned()];
        for times in [&result.change_ms, &result.repair_ms, &result.stop_ms] {
            cells.extend([0.5, 1.0].map(|share| time(quantile(times, share) * 1e3)));
        }
        rows.push(cells);
    }
    table::print("Reactions of the agent: medians, and the slowest of each", &rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_repair_misses_the_limit_where_the_kernel_tells() {
        let kept = |is_told: bool, slow_ms: f64| {
            let mut repair_ms = vec![300.0; 9];
            repair_ms[4] = slow_ms;
            let times = vec![10.0; 9];
            let result =
                ReactionResult { mode: "x", is_told, change_ms: times.clone(), repair_ms, stop_ms: times };
            judge(&[result]).iter().all(|limit| limit.kept)
        };
        assert!(kept(true, 1_000.0) && !kept(true, 1_001.0));
        assert!(kept(false, 2_500.0));
    }
}
