//! Everything loaded at once and one endpoint changed, by our layout and by the yardstick's.

use std::time::Instant;

use kernel::iptables::{Table, Tables};
use kernel::netns::Namespace;
use model::Family;
use serde::{Deserialize, Serialize};

use super::tools::Tools;
use super::upstream::{JUMPS, Layout};
use crate::bench::Bench;
use crate::{Failure, changes, load, world};
use bench_support::gauge::{Cost, Meter, Summary, Ticks, quantile};
use bench_support::variant::ToolVariant;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Scope {
    pub(crate) variant: ToolVariant,
    pub(crate) services: u32,
    /// How often all is loaded.
    pub(crate) loads: usize,
    /// How many changes are made.
    pub(crate) changes: u32,
    /// The yardstick, or ours.
    pub(crate) upstream: bool,
}

/// What one layout took.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Loaded {
    /// Of a fresh process.
    pub(crate) first: Cost,
    pub(crate) held: Held,
    pub(crate) load: Summary,
    /// With the tools.
    pub(crate) load_cpu_ms: f64,
    pub(crate) change: Summary,
    pub(crate) change_cpu_ms: f64,
    /// What the tool is given.
    pub(crate) load_bytes: usize,
    pub(crate) change_bytes: usize,
}

/// What the kernel holds in the tables nat and filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(crate) chains: usize,
    pub(crate) rules: usize,
}

impl Held {
    /// Of what iptables-save prints; built-in chains have a policy.
    fn of(saved: &str) -> Held {
        let is_chain = |line: &&str| line.starts_with(':') && line.contains(" - [");
        let chains = saved.lines().filter(is_chain).count();
        // With counters before it, or without.
        let is_rule = |line: &&str| line.starts_with("-A ") || line.contains("] -A ");
        Held { chains, rules: saved.lines().filter(is_rule).count() }
    }

    /// What the legacy tables hold: a chain has an entry as its head and one as its end.
    pub(crate) fn entries(self) -> usize {
        self.rules + 2 * self.chains
    }

    fn read(tools: &mut Tools) -> Result<Held, Failure> {
        let mut held = Held::default();
        for table in Table::BOTH {
            let Held { chains, rules } = Held::of(&tools.save(table)?);
            held = Held { chains: held.chains + chains, rules: held.rules + rules };
        }
        Ok(held)
    }
}

/// Each load in a namespace of its own, so that nothing is to be cleaned up before.
pub(crate) fn measure(scope: &Scope) -> Result<Loaded, Failure> {
    let load: fn(&Scope, bool) -> Result<Loaded, Failure> = if scope.upstream { upstream } else { ours };
    let mut all = Vec::new();
    for turn in 1..=scope.loads {
        let is_last = turn == scope.loads;
        all.push(Namespace::new()?.try_run(|| load(scope, is_last))??);
    }
    let costs: Vec<Cost> = all.iter().map(|loaded| loaded.first).collect();
    let cpu: Vec<f64> = all.iter().map(|loaded| loaded.load_cpu_ms).collect();
    let last = all.pop().ok_or("nothing was loaded")?;
    Ok(Loaded { load: Summary::of(&costs), load_cpu_ms: quantile(&cpu, 0.5), ..last })
}

fn ours(scope: &Scope, with_changes: bool) -> Result<Loaded, Failure> {
    let mut bench = Bench::iptables(scope.variant)?;
    bench.state.apply(world::service_cidrs()?);
    for number in 0..scope.services {
        bench.state.apply(world::service(Family::V4, number));
        bench.state.apply(world::slice(Family::V4, number, 0, &world::pods(number)));
    }
    let ((first, load_bytes), tools_ms) = of_children(|| bench.sync())?;
    let mut loaded =
        Loaded { first, load_bytes, load_cpu_ms: first.cpu_us / 1e3 + tools_ms, ..Loaded::default() };
    if with_changes {
        loaded.held = Held::read(&mut Tools::find(scope.variant)?)?;
        let steps =
            load::Scope { services: scope.services, ipv6: false, repetitions: scope.changes.div_ceil(2) };
        let (change, tools_ms) = of_children(|| changes::replace(&mut bench, Family::V4, &steps))?;
        loaded.changed(change, tools_ms, bench.bytes);
    }
    Ok(loaded)
}

/// Only the tool's time: what a kube-proxy does before it runs the tool comes on top.
fn upstream(scope: &Scope, with_changes: bool) -> Result<Loaded, Failure> {
    let layout = Layout { services: scope.services, protocol: "tcp", endpoint_chains: true };
    let mut tools = Tools::find(scope.variant)?;
    tools.restore(JUMPS)?;
    let full = layout.full();
    let (first, tools_ms) = of_children(|| timed(&mut tools, &full))?;
    let mut loaded = Loaded { first, load_bytes: full.len(), load_cpu_ms: tools_ms, ..Loaded::default() };
    if with_changes {
        loaded.held = Held::read(&mut tools)?;
        let scripts: Vec<String> = (0..scope.changes).map(|turn| change(&layout, turn)).collect();
        let each = || scripts.iter().map(|script| timed(&mut tools, script)).collect::<Result<Vec<_>, _>>();
        let (costs, tools_ms) = of_children(each)?;
        loaded.changed(Summary::of(&costs), tools_ms, scripts.first().map_or(0, String::len));
    }
    Ok(loaded)
}

impl Loaded {
    fn changed(&mut self, change: Summary, tools_ms: f64, bytes: usize) {
        self.change = change;
        self.change_cpu_ms = change.cpu_median_us / 1e3 + tools_ms / change.samples.max(1) as f64;
        self.change_bytes = bytes;
    }
}

/// One endpoint replaced.
fn change(layout: &Layout, turn: u32) -> String {
    let service = changes::pick(turn, layout.services);
    layout.change(service, &changes::replaced(service, turn))
}

fn timed(tools: &mut Tools, script: &str) -> Result<Cost, Failure> {
    let (meter, started) = (Meter::start(), Instant::now());
    tools.restore(script)?;
    Ok(meter.stop(started.elapsed()))
}

/// Also says the CPU time of the processes that were started and have ended, in milliseconds.
fn of_children<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<(T, f64), Failure> {
    let used = || Ticks::of_children().map_or(0.0, Ticks::millis);
    let before = used();
    let done = work()?;
    Ok((done, used() - before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_chains_are_not_counted() {
        let saved = "*nat\n:PREROUTING ACCEPT [1:2]\n:KUBE-A - [0:0]\n:KUBE-B - [0:0]\n\
            [3:4] -A PREROUTING -j KUBE-A\n-A KUBE-A -j KUBE-B\nCOMMIT\n";
        let held = Held::of(saved);
        assert_eq!((held, held.entries()), (Held { chains: 2, rules: 2 }, 6));
    }
}
