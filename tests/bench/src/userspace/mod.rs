//! Mode userspace beside HAProxy and beside the direct path, in the same namespaces: one stream, short connections, many
//! connections, slow readers, and UDP clients.

mod load;
mod scene;

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::results::Limit;
use crate::{Failure, report};
use bench_support::gauge::quantile;
use bench_support::table::{self, row, time};
use load::Leak;
use scene::Scene;

/// Connections that are open at once.
const CROWD: usize = 10_000;
const SLOW_READERS: usize = 1_000;

#[derive(Debug, Serialize)]
pub(crate) struct UserspaceResult {
    direct: Way,
    haproxy: Option<Way>,
    forwarder: Way,
    /// Bytes of memory in the agent for each of [`CROWD`] connections.
    bytes_each: f64,
    leak: Leak,
    /// Of short connections, alone and beside slow readers.
    quiet_us: f64,
    crowded_us: f64,
    udp_clients: usize,
    /// Clients that got another one's answer, and clients that got none.
    udp_crossed: usize,
    udp_lost: usize,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Way {
    /// Of one stream.
    gigabits: f64,
    /// Short connections per second.
    connections: f64,
}

pub(crate) fn measure(
    kube_proxy: &Path,
    quick: bool,
    skipped: &mut Vec<String>,
) -> Result<UserspaceResult, Failure> {
    let each = Duration::from_secs(if quick { 1 } else { 3 });
    kernel::process::raise_open_files()?;
    let mut scene = Scene::set(kube_proxy)?;
    report::note("the direct path, HAProxy and mode userspace");
    let haproxy = scene.start_haproxy();
    if let Err(why) = &haproxy {
        skipped.push(format!("userspace: HAProxy: {why}"));
    }
    // In turns, so that a busy moment of the machine hits all of them.
    let mut direct = Vec::new();
    let mut beside = Vec::new();
    let mut forwarder = Vec::new();
    for _ in 0..3 {
        direct.push(scene.way(scene.direct(), each)?);
        if haproxy.is_ok() {
            beside.push(scene.way(scene.haproxy(), each)?);
        }
        forwarder.push(scene.way(scene.service(), each)?);
    }
    report::note("short connections without a leak");
    let leak = scene.leak(if quick { 10_000 } else { 100_000 })?;
    report::note("many connections at once");
    let bytes_each = scene.weigh(CROWD)?;
    report::note("slow readers");
    let (quiet_us, crowded_us) = scene.slow_readers(SLOW_READERS)?;
    report::note("UDP clients");
    let udp_clients = if quick { 2_000 } else { 20_000 };
    let (udp_crossed, udp_lost) = scene.udp(udp_clients)?;
    Ok(UserspaceResult {
        direct: middle(&direct),
        haproxy: (!beside.is_empty()).then(|| middle(&beside)),
        forwarder: middle(&forwarder),
        bytes_each,
        leak,
        quiet_us,
        crowded_us,
        udp_clients,
        udp_crossed,
        udp_lost,
    })
}

fn middle(ways: &[Way]) -> Way {
    let of = |part: fn(&Way) -> f64| quantile(&ways.iter().map(part).collect::<Vec<_>>(), 0.5);
    Way { gigabits: of(|way| way.gigabits), connections: of(|way| way.connections) }
}

pub(crate) fn judge(result: &UserspaceResult) -> Vec<Limit> {
    let mut limits = Vec::new();
    let mut push = |what: &str, measured: String, limit: &str, kept: bool| {
        limits.push(Limit { what: format!("userspace: {what}"), measured, limit: limit.to_owned(), kept });
    };
    let UserspaceResult { direct, haproxy, forwarder, leak, .. } = result;
    let mut ratio = |what: &str, ours: f64, theirs: f64, least: f64| {
        let ratio = ours / theirs;
        push(what, format!("{ratio:.2}"), &format!("at least {least}"), ratio >= least);
    };
    ratio("one stream beside the direct path", forwarder.gigabits, direct.gigabits, 0.5);
    if let Some(haproxy) = haproxy {
        ratio("one stream beside HAProxy", forwarder.gigabits, haproxy.gigabits, 0.8);
        ratio("short connections beside HAProxy", forwarder.connections, haproxy.connections, 1.0);
    }
    let kib = result.bytes_each / 1024.0;
    push("memory of an open connection", format!("{kib:.1} KiB"), "at most 20 KiB", kib <= 20.0);
    let held = leak.descriptors.saturating_add(leak.open);
    push("descriptors and connections left over", held.to_string(), "none", held <= 0);
    push("memory left over", format!("{} KiB", leak.kib), "at most 2048 KiB", leak.kib <= 2048);
    push(
        "UDP clients with the answer of another",
        result.udp_crossed.to_string(),
        "none",
        result.udp_crossed == 0,
    );
    let slower = result.crowded_us / result.quiet_us;
    push("connections beside slow readers", format!("{slower:.2}"), "at most 3 times slower", slower <= 3.0);
    limits
}

pub(crate) fn print(result: &UserspaceResult) {
    let mut rows = vec![row(["", "one stream", "short connections"])];
    let ways = [
        ("direct path", Some(result.direct)),
        ("HAProxy", result.haproxy),
        ("mode userspace", Some(result.forwarder)),
    ];
    for (name, way) in ways {
        let Some(way) = way else { continue };
        rows.push(vec![
            name.to_owned(),
            format!("{:.2} Gbit/s", way.gigabits),
            format!("{:.0} per second", way.connections),
        ]);
    }
    table::print("Mode userspace beside others: medians of three", &rows);
    let Leak { connections, descriptors, open, kib } = &result.leak;
    println!("  {CROWD} open connections: {:.1} KiB each in the agent", result.bytes_each / 1024.0);
    println!(
        "  {connections} short connections left {descriptors} descriptors, {open} connections, {kib} KiB"
    );
    let (quiet, crowded) = (time(result.quiet_us), time(result.crowded_us));
    println!("  a short connection: {quiet}; beside {SLOW_READERS} slow readers: {crowded}");
    let UserspaceResult { udp_clients, udp_crossed, udp_lost, .. } = result;
    println!("  {udp_clients} UDP clients: {udp_crossed} got the answer of another, {udp_lost} none");
}
