//! The order of the measurements.

use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use bench_support::machine::Machine;
use bench_support::variant::{self, ToolVariant};
use conformance_support::{Kit, Scratch};

use crate::arguments::Scope;
use crate::cases::Case;
use crate::contestant::{self, Contestant, Pace};
use crate::ground::{Ground, SERVERS};
use crate::plane::Plane;
use crate::results::{Measured, Results, SizeResult, Start, Versions};
use crate::running::Running;
use crate::traffic::{self, MeasuredChange};
use crate::{Failure, churn, loading, objects};

/// Between a change that was seen in traffic and the next one.
pub(crate) const PAUSE: Duration = Duration::from_millis(250);

/// One control plane for everything, and what stays the same on it.
struct Bench<'a> {
    kit: &'a Kit,
    scope: &'a Scope,
    plane: Plane,
    kubeconfig: PathBuf,
    scratch: Scratch,
}

pub(crate) fn everything(kit: &Kit, scope: &Scope) -> Result<Results, Failure> {
    let mut machine = Machine::here();
    let versions = versions(kit)?;
    let plane = Plane::find(kit)?;
    let mut loaded = 0;
    if !plane.is_outside() {
        loading::foundations(&plane)?;
    }
    let scratch = Scratch::create()?;
    let kubeconfig = plane.kubeconfig(&scratch)?;
    let bench = Bench { kit, scope, plane, kubeconfig, scratch };
    let mut sizes = Vec::new();
    for case in &scope.cases {
        if loaded < case.services && !bench.plane.is_outside() {
            load(&bench.plane, loaded..case.services)?;
            loaded = case.services;
        }
        sizes.push(bench.size(*case)?);
    }
    machine.done();
    Ok(Results {
        machine,
        mode: scope.mode,
        endpoints_per_service: objects::ENDPOINTS,
        versions,
        cpu_account: crate::cpu::kind().to_owned(),
        sizes,
    })
}

/// A control plane of the first size, and a command beside it: that starts a machine in which this program measures.
pub(crate) fn beside(kit: &Kit, scope: &Scope, command: &[String]) -> Result<ExitStatus, Failure> {
    let plane = Plane::start(kit)?;
    loading::foundations(&plane)?;
    load(&plane, 0..scope.cases.first().map_or(0, |case| case.services))?;
    plane.run_beside(command)
}

fn load(plane: &Plane, numbers: Range<u32>) -> Result<(), Failure> {
    note(&format!("creating services up to {}", numbers.end));
    loading::services(plane, numbers)
}

impl Bench<'_> {
    fn size(&self, case: Case) -> Result<SizeResult, Failure> {
        let Case { services, variant } = case;
        let ours = self.measure(Contestant::Ours, case)?;
        // Second: the kernel takes long to clean up after its rules.
        let upstream = case.has_upstream().then(|| self.measure(Contestant::Upstream, case)).transpose()?;
        Ok(SizeResult { services, variant, ours, upstream })
    }

    fn measure(&self, who: Contestant, case: Case) -> Result<Measured, Failure> {
        let services = case.services;
        let what = format!("{}, {}", who.name(), case.name(objects::ENDPOINTS));
        note(&what);
        let (ground, mut proxy, start) = self.start(who, case, Pace::Eager)?;
        proxy.settle()?;
        let resident = proxy.resident()?;
        let idle = || {
            std::thread::sleep(self.scope.idle);
            Ok(())
        };
        let idle_cpu = cpu_during(&proxy, idle)?.1.share();
        let (changes, used) = cpu_during(&proxy, || self.changes(&ground))?;
        let busy = used.cpu.as_secs_f64() - idle_cpu * used.wall.as_secs_f64();
        let cpu_per_change_ms = busy.max(0.0) * 1e3 / changes.len().max(1) as f64;
        note(&format!("{what}, changes without pause"));
        let churn = churn::run(&self.plane, &proxy, services, self.scope.churn, turn(who, case))?;
        let resident_at_end = proxy.resident()?;
        drop((proxy, ground));

        note(&format!("{what}, default settings"));
        let (ground, mut proxy, default_start) = self.start(who, case, Pace::Default)?;
        proxy.settle()?;
        let default_changes = self.changes(&ground)?;
        Ok(Measured {
            start,
            resident,
            resident_at_end,
            idle_cpu,
            changes,
            cpu_per_change_ms,
            churn,
            default_start,
            default_changes,
        })
    }

    /// On a node of its own, until traffic flows.
    fn start(&self, who: Contestant, case: Case, pace: Pace) -> Result<(Ground, Running, Start), Failure> {
        let ground = Ground::new(&self.plane.control)?;
        loading::probes(&self.plane, ground.address_of(SERVERS[0])?)?;
        let config = contestant::config(self.scope.mode, pace, &self.kubeconfig).to_string();
        let config = self.scratch.write("config.yaml", &config)?;
        let variant = case.variant.map_or(String::new(), |variant| format!("-{}", variant.name()));
        let log = self.log(&format!("{}-{}{variant}-{pace:?}.log", who.name(), case.services))?;
        let mut command = Command::new(who.binary(self.kit));
        command.arg("--config").arg(config);
        if let Some(variant) = case.variant {
            self.with_tools(&mut command, variant, &ground)?;
        }
        let mut proxy = Running::start(command, &ground.sandbox.node, log)?;
        let answered = traffic::await_start(&ground, &mut proxy)?;
        let cpu = proxy.cpu.used()?;
        let start = Start {
            ms: answered.saturating_duration_since(proxy.started).as_secs_f64() * 1e3,
            cpu_ms: cpu.as_secs_f64() * 1e3,
        };
        Ok((ground, proxy, start))
    }

    /// Upstream runs whatever `iptables` is; ours asks the node. Nothing else waits for the lock of these tools.
    fn with_tools(
        &self,
        command: &mut Command,
        variant: ToolVariant,
        ground: &Ground,
    ) -> Result<(), Failure> {
        let folder = self.scratch.path().join(variant.name());
        variant.lay_out(&folder)?;
        variant.hint(&ground.sandbox.node)?;
        command.env("PATH", variant::path_with(&folder));
        command.env("XTABLES_LOCKFILE", self.scratch.path().join("xtables.lock"));
        Ok(())
    }

    fn changes(&self, ground: &Ground) -> Result<Vec<MeasuredChange>, Failure> {
        let mut changes = Vec::new();
        for turn in 0..self.scope.changes {
            changes.push(traffic::change(ground, self.plane.api(), turn)?);
            std::thread::sleep(PAUSE);
        }
        Ok(changes)
    }

    fn log(&self, name: &str) -> Result<PathBuf, Failure> {
        let folder = self.scope.logs.as_deref().unwrap_or(self.scratch.path());
        std::fs::create_dir_all(folder)?;
        Ok(folder.join(name))
    }
}

/// What was used in how much time.
struct Used {
    cpu: Duration,
    wall: Duration,
}

impl Used {
    fn share(&self) -> f64 {
        self.cpu.as_secs_f64() / self.wall.as_secs_f64()
    }
}

fn cpu_during<T>(proxy: &Running, work: impl FnOnce() -> Result<T, Failure>) -> Result<(T, Used), Failure> {
    let (before, since) = (proxy.cpu.used()?, Instant::now());
    let done = work()?;
    Ok((done, Used { cpu: proxy.cpu.used()?.saturating_sub(before), wall: since.elapsed() }))
}

/// Different for any two runs that follow each other.
fn turn(who: Contestant, case: Case) -> u32 {
    1 + 2 * u32::from(who == Contestant::Upstream) + 4 * u32::from(case.variant == Some(ToolVariant::Nft))
}

fn versions(kit: &Kit) -> Result<Versions, Failure> {
    let ask = |binary: &std::path::Path| -> Result<String, Failure> {
        let output = Command::new(binary).arg("--version").output();
        let output = output.map_err(|e| format!("{} --version: {e}", binary.display()))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    // Both variants are of one package; what they add in brackets tells them apart.
    let iptables = ToolVariant::Nft.find("iptables", "").map_or(Ok(String::new()), |tool| ask(&tool))?;
    Ok(Versions {
        ours: ask(&kit.kube_proxy)?,
        upstream: ask(&kit.upstream)?,
        apiserver: ask(&kit.apiserver)?,
        nft: ask("nft".as_ref())?,
        iptables: iptables.split(" (").next().unwrap_or_default().to_owned(),
    })
}

fn note(what: &str) {
    #[expect(clippy::print_stderr, reason = "progress, apart from the results on standard output")]
    {
        eprintln!("compare: {what}");
    }
}
