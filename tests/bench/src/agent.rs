//! The real agent on generated manifests: how long until it is ready, what it weighs, what it does when idle.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kernel::netns::Namespace;

use crate::results::AgentResult;
use crate::scratch::Scratch;
use crate::{Failure, manifests, scrape, world};
use bench_support::gauge::{self, Resident, Ticks};

const PROBES: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10256);
const STEP: Duration = Duration::from_millis(5);
const START_DEADLINE: Duration = Duration::from_secs(120);
/// Nothing done for so long: the start is over, with all that follows it.
const QUIET: Duration = Duration::from_millis(500);

/// Build the agent with the profile this program has, and say where it is.
pub(crate) fn build() -> Result<PathBuf, Failure> {
    let folder = std::env::current_exe()?.parent().map(Path::to_owned).unwrap_or_default();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "-p", "pointsman-agent", "--bin", "kube-proxy"]);
    if folder.ends_with("release") {
        command.arg("--release");
    }
    command.arg("--manifest-path").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"));
    if let Some(target) = folder.parent() {
        command.arg("--target-dir").arg(target);
    }
    match command.status()?.success() {
        true => Ok(folder.join("kube-proxy")),
        false => Err("kube-proxy does not build; name one with --kube-proxy".into()),
    }
}

pub(crate) fn measure(kube_proxy: &Path, services: u32, idle: Duration) -> Result<AgentResult, Failure> {
    let scratch = Scratch::new("agent")?;
    let folder = scratch.path().join("manifests");
    std::fs::create_dir_all(&folder)?;
    let manifest_bytes = manifests::write(&folder, services)?;
    let namespace = Namespace::new()?;
    let log = scratch.path().join("log");
    let started = Instant::now();
    let mut agent = Agent::start(kube_proxy, &folder, &log, &namespace)?;
    namespace.try_run(|| agent.wait_until_ready(started, &log))??;
    let ready = started.elapsed();
    let ready_cpu = agent.ticks()?;
    agent.wait_until_quiet()?;
    let resident = Resident::of(&agent.id()).ok_or("kube-proxy has ended")?;
    let (before, before_us, since) = (agent.ticks()?, agent.scheduled_us(), Instant::now());
    std::thread::sleep(idle);
    let (after, after_us) = (agent.ticks()?, agent.scheduled_us());
    let scrape = namespace.try_run(scrape::measure)??;
    Ok(AgentResult {
        services,
        manifest_bytes,
        ready_ms: gauge::micros(ready) / 1e3,
        ready_cpu_ms: ready_cpu.millis(),
        resident,
        idle_seconds: since.elapsed().as_secs_f64(),
        idle_ticks: after.0 - before.0,
        idle_us: after_us - before_us,
        scrape,
    })
}

/// A running agent; it is killed when this goes.
pub(crate) struct Agent(Child);

impl Agent {
    pub(crate) fn start(
        kube_proxy: &Path,
        manifests: &Path,
        log: &Path,
        namespace: &Namespace,
    ) -> Result<Agent, Failure> {
        let mut command = Command::new(kube_proxy);
        command.arg("--manifests").arg(manifests);
        command.args(["--hostname-override", world::NODE, "--cluster-cidr", world::POD_CIDRS[0]]);
        command.arg("--healthz-bind-address").arg(PROBES.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(log)?);
        namespace.enter(&mut command)?;
        let child =
            command.spawn().map_err(|error| format!("cannot start {}: {error}", kube_proxy.display()))?;
        Ok(Agent(child))
    }

    pub(crate) fn wait_until_ready(&mut self, started: Instant, log: &Path) -> Result<(), Failure> {
        while !is_ready() {
            let said = || std::fs::read_to_string(log).unwrap_or_default();
            if let Some(status) = self.0.try_wait()? {
                return Err(format!("kube-proxy ended with {status} before it was ready: {}", said()).into());
            }
            if started.elapsed() > START_DEADLINE {
                return Err(format!("kube-proxy was not ready after {START_DEADLINE:?}: {}", said()).into());
            }
            std::thread::sleep(STEP);
        }
        Ok(())
    }

    pub(crate) fn wait_until_quiet(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + START_DEADLINE;
        while Instant::now() < deadline {
            let before = self.scheduled_us();
            std::thread::sleep(QUIET);
            if self.scheduled_us() - before < 1.0 {
                return Ok(());
            }
        }
        Err(format!("kube-proxy was never idle for {QUIET:?}").into())
    }

    pub(crate) fn id(&self) -> String {
        self.0.id().to_string()
    }

    fn ticks(&self) -> Result<Ticks, Failure> {
        Ticks::of(&self.id()).ok_or_else(|| "kube-proxy has ended".into())
    }

    /// CPU time of all living threads by the scheduler's clock, which is finer than ticks.
    pub(crate) fn scheduled_us(&self) -> f64 {
        self.scheduled_us_of("")
    }

    /// The same of threads whose name begins so.
    pub(crate) fn scheduled_us_of(&self, name: &str) -> f64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.id()));
        let times = tasks.into_iter().flatten().flatten().filter_map(|task| {
            let read = |file: &str| std::fs::read_to_string(task.path().join(file)).ok();
            if !name.is_empty() && !read("comm")?.starts_with(name) {
                return None;
            }
            read("schedstat")?.split_whitespace().next()?.parse::<f64>().ok()
        });
        times.sum::<f64>() / 1e3
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It has ended already if it cannot be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_ready() -> bool {
    scrape::get(PROBES, "/readyz").is_ok_and(|(good, _)| good)
}
