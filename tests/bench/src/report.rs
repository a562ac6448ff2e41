//! The order of the measurements, and their results as tables.

use std::path::PathBuf;
use std::time::Duration;

use crate::arguments::{Arguments, Only};
use crate::children::{self, Part};
use crate::load::Scope;
use crate::results::{Changes, Limit, Results, SizeResult};
use crate::{Failure, agent, iptables, isolation, questions, reactions, userspace, yardstick};
use bench_support::gauge::Summary;
use bench_support::machine::Machine;
use bench_support::table::{self, kib, megabytes, row, time};

const WIDE: u32 = 5_000;
const COUNTED: u32 = 10_000;

/// Measure everything. The yardstick comes last: the kernel takes long to clean up after it.
pub(crate) fn gather(arguments: &Arguments) -> Result<Results, Failure> {
    let mut results = Results { machine: Machine::here(), ..Results::default() };
    let is_wanted = |parts: &[Only]| arguments.only.is_none_or(|only| parts.contains(&only));
    if is_wanted(&[Only::Iptables]) {
        results.iptables.loads = iptables::measure_loads(arguments.quick, &mut results.skipped)?;
    }
    if is_wanted(&[Only::Iptables, Only::FirstPacket]) {
        results.iptables.packets = iptables::measure_packets(arguments.quick, &mut results.skipped)?;
    }
    if is_wanted(&[Only::Nftables]) {
        gather_nftables(arguments, &mut results)?;
    }
    if is_wanted(&[Only::Isolation]) {
        results.isolation = isolation::measure(&kube_proxy(arguments)?, arguments.quick)?;
    }
    if is_wanted(&[Only::Reactions]) {
        let kube_proxy = kube_proxy(arguments)?;
        results.reactions = reactions::measure(&kube_proxy, arguments.quick, &mut results.skipped)?;
    }
    if is_wanted(&[Only::Questions]) {
        results.questions = Some(questions::measure(&kube_proxy(arguments)?, arguments.quick)?);
    }
    if is_wanted(&[Only::Userspace, Only::Crowd]) {
        let kube_proxy = kube_proxy(arguments)?;
        results.crowd = Some(userspace::measure_crowd(&kube_proxy, arguments.quick, &mut results.skipped)?);
    }
    if is_wanted(&[Only::Userspace]) {
        let kube_proxy = kube_proxy(arguments)?;
        results.userspace = Some(userspace::measure(&kube_proxy, arguments.quick, &mut results.skipped)?);
    }
    results.machine.done();
    Ok(results)
}

fn gather_nftables(arguments: &Arguments, results: &mut Results) -> Result<(), Failure> {
    let quick = arguments.quick;
    let sizes: &[u32] = if quick { &[1_000, 10_000] } else { &[1_000, 5_000, 10_000, 30_000, 50_000] };
    for services in sizes {
        // 5,000 are only there to stand beside the yardstick.
        let repetitions = match *services {
            5_000 => 0,
            _ if quick => 50,
            _ => 150,
        };
        note(&format!("{services} services"));
        results.sizes.push(load(*services, false, repetitions)?);
    }
    if !quick {
        note("10000 services of IPv6");
        results.sizes.push(load(10_000, true, 50)?);
    }
    note("one wide service");
    results.wide = Some(children::start(&Part::Wide { endpoints: WIDE })?);
    note("service counters");
    results.counting = Some(children::start(&Part::Counting { services: COUNTED })?);
    measure_agents(arguments, results)?;
    measure_yardsticks(quick, results)
}

fn load(services: u32, ipv6: bool, repetitions: u32) -> Result<SizeResult, Failure> {
    children::start(&Part::Load(Scope { services, ipv6, repetitions }))
}

fn measure_agents(arguments: &Arguments, results: &mut Results) -> Result<(), Failure> {
    let idle = Duration::from_secs(if arguments.quick { 2 } else { 8 });
    let kube_proxy = kube_proxy(arguments)?;
    for services in &arguments.agent_sizes {
        note(&format!("the agent with {services} services"));
        results.agents.push(agent::measure(&kube_proxy, *services, idle)?);
    }
    Ok(())
}

fn kube_proxy(arguments: &Arguments) -> Result<PathBuf, Failure> {
    arguments.kube_proxy.clone().map_or_else(agent::build, Ok)
}

fn measure_yardsticks(quick: bool, results: &mut Results) -> Result<(), Failure> {
    if !yardstick::is_installed() {
        results.skipped.push("the yardstick: nft is not installed".to_owned());
        return Ok(());
    }
    let sizes: &[u32] = if quick { &[1_000] } else { &[1_000, 5_000] };
    for services in sizes {
        note(&format!("the yardstick with {services} services"));
        let ours = results.sizes.iter().find(|size| size.services == *services && !size.ipv6);
        let ours_ms = ours.map_or(f64::INFINITY, |size| size.full.loads.median_us / 1e3);
        results.yardsticks.push(yardstick::measure(*services, ours_ms)?);
    }
    Ok(())
}

pub(crate) fn note(what: &str) {
    #[expect(clippy::print_stderr, reason = "progress, apart from the results on standard output")]
    {
        eprintln!("measuring {what}");
    }
}

pub(crate) fn print(results: &Results) {
    let Machine { kernel, processors, load: [before, after] } = &results.machine;
    println!("Linux {kernel}, {processors} CPUs; load before {before}, after {after}");
    println!("5 endpoints a service, one TCP port, IPv4 unless said otherwise; times are medians");
    if results.machine.is_busy() {
        println!("The machine is busy with other work: wall times are longer than they need be");
    }
    iptables::print(&results.iptables);
    isolation::print(&results.isolation);
    reactions::print(&results.reactions);
    results.questions.iter().for_each(questions::print);
    results.crowd.iter().for_each(userspace::print_crowd);
    results.userspace.iter().for_each(userspace::print);
    if !results.sizes.is_empty() {
        print_full(results);
        print_changes(results);
        print_again(results);
        print_wide(results);
        print_counting(results);
        print_agents(results);
        print_yardsticks(results);
    }
    results.skipped.iter().for_each(|why| println!("\nSKIPPED: {why}"));
    print_limits(&results.limits);
}

fn label(size: &SizeResult) -> String {
    format!("{}{}", size.services, if size.ipv6 { " IPv6" } else { "" })
}

fn print_full(results: &Results) {
    let head = ["services", "best", "wall", "kernel", "CPU", "batch", "kernel mem", "RSS", "trimmed", "peak"];
    let mut rows = vec![row(head)];
    for size in &results.sizes {
        let full = &size.full;
        rows.push(vec![
            label(size),
            time(full.loads.best_us),
            time(full.loads.median_us),
            time(full.loads.kernel_median_us),
            time(full.loads.cpu_median_us),
            megabytes(full.bytes as f64),
            kib(full.kernel_kib),
            kib(full.resident.now_kib),
            kib(full.trimmed.now_kib),
            kib(full.resident.peak_kib),
        ]);
    }
    table::print("Full load: plan and commit (RSS is that of state and data plane alone)", &rows);
}

type Pick = fn(&Changes) -> &Summary;

fn print_changes(results: &Results) {
    let kinds: [(&str, Pick); 6] = [
        ("endpoint replaced", |changes| &changes.replaced),
        ("endpoint added", |changes| &changes.added),
        ("endpoint removed", |changes| &changes.removed),
        ("service added", |changes| &changes.service_added),
        ("service removed", |changes| &changes.service_removed),
        ("1,000 services at once", |changes| &changes.many),
    ];
    let mut rows = vec![row(["services", "change", "best", "median", "p99", "kernel", "CPU", "samples"])];
    for size in &results.sizes {
        let Some(changes) = &size.changes else { continue };
        for (name, pick) in kinds {
            let summary = pick(changes);
            rows.push(change_row(&label(size), name, summary));
        }
    }
    table::print("Changes: object in, rules committed", &rows);
}

fn change_row(first: &str, name: &str, summary: &Summary) -> Vec<String> {
    vec![
        first.to_owned(),
        name.to_owned(),
        time(summary.best_us),
        time(summary.median_us),
        time(summary.p99_us),
        time(summary.kernel_median_us),
        time(summary.cpu_median_us),
        summary.samples.to_string(),
    ]
}

fn print_again(results: &Results) {
    let head = ["services", "load", "best", "median", "p99", "kernel", "CPU", "samples"];
    let mut rows = vec![row(head)];
    for size in &results.sizes {
        let label = label(size);
        rows.push(change_row(&label, "into an empty kernel", &size.full.loads));
        rows.push(change_row(&label, "over existing rules", &size.restart));
        let Some(watched) = &size.watched else { continue };
        rows.push(change_row(&label, "empty, with a listener", &watched.full));
        rows.push(change_row(&label, "endpoint replaced, with a listener", &watched.replaced));
    }
    table::print("Full loads compared; listening is a subscription to nf_tables notifications", &rows);
}

fn print_wide(results: &Results) {
    let Some(wide) = &results.wide else { return };
    let mut rows = vec![row(["endpoints", "change", "best", "median", "p99", "kernel", "CPU", "samples"])];
    let label = wide.endpoints.to_string();
    rows.push(change_row(&label, "load", &Summary::of(&[wide.load])));
    rows.push(change_row(&label, "endpoint replaced", &wide.replaced));
    rows.push(change_row(&label, "endpoint added", &wide.added));
    rows.push(change_row(&label, "endpoint removed", &wide.removed));
    table::print("One service of many endpoints", &rows);
}

fn print_counting(results: &Results) {
    let Some(counting) = &results.counting else { return };
    let mut rows =
        vec![row(["--service-counters", "best off", "best on", "median off", "median on", "ratio"])];
    let mut add = |what: String, best: [f64; 2], median: [f64; 2]| {
        // Other work on the machine only adds: the best tells most.
        let ratio = format!("{:.2}", best[1] / best[0]);
        rows.push(vec![what, time(best[0]), time(best[1]), time(median[0]), time(median[1]), ratio]);
    };
    let services = counting.services;
    for (what, summaries) in [
        ("full load", &counting.load),
        ("load over existing rules", &counting.restart),
        ("a service added", &counting.service_added),
    ] {
        let of = |value: fn(&Summary) -> f64| summaries.each_ref().map(value);
        add(format!("{what}, {services} services"), of(|one| one.best_us), of(|one| one.median_us));
    }
    for (what, packets) in ["a packet to a service", "a packet past services"].iter().zip(&counting.packets) {
        let microseconds = |ns: [f64; 2]| ns.map(|ns| ns / 1e3);
        add((*what).to_owned(), microseconds(packets.best_ns), microseconds(packets.median_ns));
    }
    table::print(
        "Counting services' traffic; packets: from pod to pod over this node, without answers",
        &rows,
    );
    let [without, with] = counting.kernel_kib.map(kib);
    let reading = time(counting.reading.median_us);
    println!("kernel memory {without} without, {with} with; reading the counters of all services: {reading}");
}

fn print_agents(results: &Results) {
    let head = [
        "services",
        "manifests",
        "ready",
        "CPU",
        "RSS",
        "peak",
        "idle CPU",
        "a scrape",
        "in a rewrite",
        "rewrite",
        "scraped",
    ];
    let mut rows = vec![row(head)];
    for agent in &results.agents {
        rows.push(vec![
            agent.services.to_string(),
            megabytes(agent.manifest_bytes as f64),
            time(agent.ready_ms * 1e3),
            time(agent.ready_cpu_ms * 1e3),
            kib(agent.resident.now_kib),
            kib(agent.resident.peak_kib),
            format!("{} ticks, {} in {:.0} s", agent.idle_ticks, time(agent.idle_us), agent.idle_seconds),
            time(agent.scrape.idle.median_us),
            time(agent.scrape.busy.median_us),
            time(agent.scrape.rewrite_ms * 1e3),
            time(agent.scrape.scraped_rewrite_ms * 1e3),
        ]);
    }
    table::print("The agent on manifests", &rows);
}

fn print_yardsticks(results: &Results) {
    let mut rows = vec![row(["services", "text", "wall", "CPU", "peak RSS", "our full load is"])];
    for yardstick in &results.yardsticks {
        rows.push(vec![
            yardstick.services.to_string(),
            megabytes(yardstick.text_bytes as f64),
            time(yardstick.wall_ms * 1e3),
            time(yardstick.cpu_ms * 1e3),
            kib(yardstick.peak_kib),
            format!("{:.0}x faster", yardstick.ratio),
        ]);
    }
    table::print("Yardstick: a chain per service and endpoint, loaded by nft -f", &rows);
}

fn print_limits(limits: &[Limit]) {
    let verdict = |limit: &Limit| if limit.kept { "ok" } else { "MISSED" };
    let line = |limit: &Limit| row([&limit.what, &limit.measured, &limit.limit, verdict(limit)]);
    table::print("Limits", &limits.iter().map(line).collect::<Vec<_>>());
}
