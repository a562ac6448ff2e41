//! The results as tables.

use super::loads::Loaded;
use super::{IptablesResults, LoadResult, PacketResult};
use bench_support::table::{self, megabytes, row, time};

pub(crate) fn print(results: &IptablesResults) {
    if !results.loads.is_empty() {
        print_held(&results.loads);
        print_loads(&results.loads);
    }
    if !results.packets.is_empty() {
        print_packets(&results.packets);
    }
}

/// Both layouts of a case, the yardstick's only where it was run.
fn layouts(load: &LoadResult) -> impl Iterator<Item = (&'static str, &Loaded)> {
    [("ours", Some(&load.ours)), ("yardstick", load.upstream.as_ref())]
        .into_iter()
        .filter_map(|(who, loaded)| Some((who, loaded?)))
}

fn print_held(loads: &[LoadResult]) {
    let mut rows =
        vec![row(["services", "tools", "layout", "chains", "rules", "entries", "entries a service"])];
    for load in loads {
        for (who, loaded) in layouts(load) {
            let held = loaded.held;
            let each = held.entries() as f64 / f64::from(load.services);
            rows.push(vec![
                load.services.to_string(),
                load.variant.name().to_owned(),
                who.to_owned(),
                held.chains.to_string(),
                held.rules.to_string(),
                held.entries().to_string(),
                format!("{each:.1}"),
            ]);
        }
    }
    table::print(
        "iptables: chains and rules in nat and filter; an entry is a rule, or a chain's head or end",
        &rows,
    );
}

fn print_loads(loads: &[LoadResult]) {
    let head = [
        "services", "tools", "layout", "load", "in tools", "CPU", "script", "change", "in tools", "CPU",
        "script",
    ];
    let mut rows = vec![row(head)];
    for load in loads {
        for (who, loaded) in layouts(load) {
            rows.push(vec![
                load.services.to_string(),
                load.variant.name().to_owned(),
                who.to_owned(),
                time(loaded.load.median_us),
                time(loaded.load.kernel_median_us),
                time(loaded.load_cpu_ms * 1e3),
                megabytes(loaded.load_bytes as f64),
                time(loaded.change.median_us),
                time(loaded.change.kernel_median_us),
                time(loaded.change_cpu_ms * 1e3),
                format!("{:.1} kB", loaded.change_bytes as f64 / 1e3),
            ]);
        }
    }
    table::print(
        "iptables: full load and one endpoint replaced; of the yardstick only iptables-restore is measured",
        &rows,
    );
}

fn print_packets(packets: &[PacketResult]) {
    let head = [
        "services",
        "tools",
        "no rules",
        "one rule",
        "yardstick",
        "ours",
        "ours / yardstick",
        "less no rules",
        "less one rule",
    ];
    let mut rows = vec![row(head)];
    for PacketResult { scope, measured } in packets {
        let microseconds = |ns: f64| format!("{:.2} µs", ns / 1e3);
        let star = if scope.endpoint_chains { "" } else { " *" };
        rows.push(vec![
            scope.services.to_string(),
            scope.variant.name().to_owned(),
            microseconds(measured.bare_ns),
            microseconds(measured.least_ns),
            microseconds(measured.upstream_ns) + star,
            microseconds(measured.ours_ns),
            format!("{:.3}", measured.of_all()),
            format!("{:.3}", measured.of_rules()),
            format!("{:.3}", measured.of_search()),
        ]);
    }
    table::print(
        "iptables: a connection's first packet, its whole way from pod to pod, best; ratios of that, of what rules add, of the search",
        &rows,
    );
    if packets.iter().any(|packet| !packet.scope.endpoint_chains) {
        println!("  * without a chain for each endpoint, which iptables-nft does not load in eight minutes");
    }
}
