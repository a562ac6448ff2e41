//! The limits, and whether what was measured keeps them. A part that was not measured is not judged.

use crate::results::{Changes, Limit, Results, ScrapeResult, SizeResult};

const CHANGE_MS: f64 = 1.0;
const GROWTH: f64 = 2.0;
/// Of the program that ships. From an apiserver it is 3 MB less (`make compare`): manifests are remembered by file and
/// by object, to know what a changed file takes away.
const AGENT_RSS_MB: f64 = 23.0;
const SCRAPE_MS: f64 = 10.0;
/// Times longer than one without scrapes; the rest is other work on the machine.
const SLOWED: f64 = 1.5;
const YARDSTICK_RATIO: f64 = 20.0;
const YARDSTICK_SERVICES: u32 = 5_000;

pub(crate) fn judge(results: &Results) -> Vec<Limit> {
    let mut limits = Vec::new();
    for size in results.sizes.iter().filter(|size| !size.ipv6) {
        full_load(&mut limits, size);
        if let Some(changes) = &size.changes {
            small_changes(&mut limits, size.services, changes);
        }
    }
    growth(&mut limits, results);
    agents(&mut limits, results);
    limits.extend(crate::iptables::judge(&results.iptables));
    limits.extend(crate::isolation::judge(&results.isolation));
    limits.extend(crate::reactions::judge(&results.reactions));
    limits.extend(results.questions.iter().flat_map(crate::questions::judge));
    limits.extend(results.crowd.iter().map(crate::userspace::judge_crowd));
    limits.extend(results.userspace.iter().flat_map(crate::userspace::judge));
    for yardstick in results.yardsticks.iter().filter(|one| one.services == YARDSTICK_SERVICES) {
        limits.push(Limit {
            what: format!("{} services: full load, against the yardstick", yardstick.services),
            measured: format!("{:.0}x faster", yardstick.ratio),
            limit: format!("at least {YARDSTICK_RATIO}x"),
            kept: yardstick.ratio >= YARDSTICK_RATIO,
        });
    }
    limits
}

fn full_load(limits: &mut Vec<Limit>, size: &SizeResult) {
    let limit_ms = match size.services {
        10_000 => 400.0,
        50_000 => 2_500.0,
        _ => return,
    };
    let what = format!("{} services: full load", size.services);
    limits.push(at_most(what, size.full.loads.median_us / 1e3, limit_ms, "ms"));
}

fn small_changes(limits: &mut Vec<Limit>, services: u32, changes: &Changes) {
    let mut push = |what: &str, median_us: f64, limit_ms| {
        limits.push(at_most(format!("{services} services: {what}"), median_us / 1e3, limit_ms, "ms"));
    };
    push("one endpoint replaced", changes.replaced.median_us, CHANGE_MS);
    let resized_ms = match services {
        10_000 => 3.0,
        50_000 => 12.0,
        _ => return,
    };
    push("one endpoint added", changes.added.median_us, resized_ms);
    push("one endpoint removed", changes.removed.median_us, resized_ms);
}

/// Replacing an endpoint must not cost more because there are more services.
fn growth(limits: &mut Vec<Limit>, results: &Results) {
    let median = |services: u32| {
        let size = results.sizes.iter().find(|size| size.services == services && !size.ipv6)?;
        Some(size.changes.as_ref()?.replaced.median_us)
    };
    if let (Some(small), Some(large)) = (median(1_000), median(50_000)) {
        let what = "one endpoint replaced: 50000 services against 1000".to_owned();
        limits.push(at_most(what, large / small, GROWTH, "x"));
    }
}

fn agents(limits: &mut Vec<Limit>, results: &Results) {
    for agent in &results.agents {
        if agent.services == 10_000 {
            let rss = agent.resident.now_kib as f64 * 1024.0 / 1e6;
            limits.push(at_most("10000 services: memory of the agent".to_owned(), rss, AGENT_RSS_MB, "MB"));
            scrapes(limits, &agent.scrape);
        }
        let what = format!("{} services: CPU of the idle agent", agent.services);
        limits.push(at_most(what, agent.idle_ticks as f64, 0.0, "ticks"));
    }
}

/// They wait for no sync, and no sync for them.
fn scrapes(limits: &mut Vec<Limit>, scrape: &ScrapeResult) {
    let mut push = |what: &str, measured_ms, limit_ms| {
        limits.push(at_most(format!("10000 services: {what}"), measured_ms, limit_ms, "ms"));
    };
    push("a scrape", scrape.idle.median_us / 1e3, SCRAPE_MS);
    push("a scrape during a rewrite", scrape.busy.median_us / 1e3, SCRAPE_MS);
    push("a rewrite during scrapes", scrape.scraped_rewrite_ms, (scrape.rewrite_ms * SLOWED).round());
}

fn at_most(what: String, measured: f64, limit: f64, unit: &str) -> Limit {
    Limit {
        what,
        measured: format!("{measured:.3} {unit}"),
        limit: format!("at most {limit} {unit}"),
        kept: measured <= limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{AgentResult, YardstickResult};
    use bench_support::gauge::{Resident, Summary};

    #[test]
    fn at_the_limit_is_kept_and_above_is_missed() {
        let scrape = |median_us, scraped_rewrite_ms| {
            let summary = Summary { median_us, ..Summary::default() };
            ScrapeResult { bytes: 0, idle: summary, busy: summary, rewrite_ms: 400.0, scraped_rewrite_ms }
        };
        let agent = |now_kib, idle_ticks, scrape| AgentResult {
            services: 10_000,
            manifest_bytes: 0,
            ready_ms: 0.0,
            ready_cpu_ms: 0.0,
            resident: Resident { now_kib, peak_kib: 0 },
            idle_seconds: 5.0,
            idle_ticks,
            idle_us: 0.0,
            scrape,
        };
        let yardstick = |ratio| YardstickResult {
            services: YARDSTICK_SERVICES,
            text_bytes: 0,
            wall_ms: 0.0,
            cpu_ms: 0.0,
            peak_kib: 0,
            ratio,
        };
        let kept = |results: &Results| judge(results).iter().map(|limit| limit.kept).collect::<Vec<_>>();
        let good = Results {
            agents: vec![agent(22_000, 0, scrape(10_000.0, 600.0))],
            yardsticks: vec![yardstick(20.0)],
            ..Results::default()
        };
        assert_eq!(kept(&good), [true; 6]);
        let bad = Results {
            agents: vec![agent(23_000, 1, scrape(10_001.0, 601.0))],
            yardsticks: vec![yardstick(19.9)],
            ..Results::default()
        };
        assert_eq!(kept(&bad), [false; 6]);
    }
}
