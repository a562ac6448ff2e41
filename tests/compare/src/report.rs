//! The numbers as tables: aligned on standard output, and as Markdown in the documents.

use bench_support::machine::Machine;
use bench_support::table::{self, row};

use crate::claims::{self, Claim, Judged};
use crate::contestant::{Contestant, Mode};
use crate::document::Which;
use crate::results::{Measured, Results, SizeResult};

/// In place of a number that was not waited for.
const NOT_RUN: &str = "not run";

/// How a number is written.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Millis,
    Megabytes,
    /// Of one CPU.
    Share,
}

pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) value: fn(&Measured) -> f64,
    /// Stands in the picture too.
    pub(crate) drawn: bool,
}

pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "start to first packet through a service",
        unit: Unit::Millis,
        value: |m| m.start.ms,
        drawn: true,
    },
    Row { name: "CPU time until then", unit: Unit::Millis, value: |m| m.start.cpu_ms, drawn: true },
    Row { name: "memory (RSS)", unit: Unit::Megabytes, value: Measured::resident_mb, drawn: true },
    Row { name: "memory, peak", unit: Unit::Megabytes, value: Measured::peak_mb, drawn: false },
    Row {
        name: "endpoint change to traffic, median",
        unit: Unit::Millis,
        value: |m| m.moved_ms(0.5),
        drawn: true,
    },
    Row {
        name: "endpoint change to traffic, 90 %",
        unit: Unit::Millis,
        value: |m| m.moved_ms(0.9),
        drawn: false,
    },
    Row {
        name: "endpoint change to traffic, slowest",
        unit: Unit::Millis,
        value: |m| m.moved_ms(1.0),
        drawn: false,
    },
    Row {
        name: "the same with default settings, median",
        unit: Unit::Millis,
        value: |m| m.default_moved_ms(0.5),
        drawn: true,
    },
    Row { name: "CPU time of a change", unit: Unit::Millis, value: |m| m.cpu_per_change_ms, drawn: true },
    Row { name: "CPU at 60 changes per second", unit: Unit::Share, value: |m| m.churn.cpu, drawn: true },
    Row { name: "CPU when idle", unit: Unit::Share, value: |m| m.idle_cpu, drawn: false },
];

impl Unit {
    pub(crate) fn write(self, value: f64) -> String {
        match self {
            Unit::Millis if value >= 1e3 => format!("{} s", three_digits(value / 1e3)),
            Unit::Millis => format!("{} ms", three_digits(value)),
            Unit::Megabytes => format!("{} MB", three_digits(value)),
            Unit::Share => format!("{} %", three_digits(value * 100.0)),
        }
    }
}

/// More than the repetition of a run bears out would only be hard to read.
fn three_digits(value: f64) -> String {
    let decimals = match value {
        value if value < 0.005 => 0,
        value if value < 10.0 => 2,
        value if value < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

impl Row {
    pub(crate) fn write(&self, size: &SizeResult, who: Contestant) -> String {
        size.of(who).map_or(NOT_RUN.to_owned(), |measured| self.unit.write((self.value)(measured)))
    }

    /// How many times ours upstream's is.
    pub(crate) fn factor(&self, size: &SizeResult) -> String {
        let Some(upstream) = &size.upstream else { return String::new() };
        match (self.value)(upstream) / (self.value)(&size.ours) {
            factor if !factor.is_finite() => String::new(),
            factor if factor < 10.0 => format!("{factor:.1}×"),
            factor => format!("{factor:.0}×"),
        }
    }

    fn cells(&self, size: &SizeResult) -> Vec<String> {
        let [ours, upstream] = Contestant::BOTH.map(|who| self.write(size, who));
        vec![self.name.to_owned(), ours, upstream, self.factor(size)]
    }
}

pub(crate) fn print(results: &Results, judged: &[Judged]) {
    let Machine { kernel, processors, load: [before, after] } = &results.machine;
    println!("Linux {kernel}, {processors} CPUs; load before {before}, after {after}");
    println!("ours: {}; upstream: {}", results.versions.ours, results.versions.upstream);
    println!("mode {}, {} endpoints a service", results.mode.name(), results.endpoints_per_service);
    if results.machine.is_busy() {
        println!("The machine is busy with other work: times are longer than they need be");
    }
    for size in &results.sizes {
        let head = row(["", Contestant::Ours.name(), Contestant::Upstream.name(), "upstream / ours"]);
        let rows: Vec<Vec<String>> =
            [head].into_iter().chain(ROWS.iter().map(|row| row.cells(size))).collect();
        table::print(&size.case().name(results.endpoints_per_service), &rows);
    }
    if judged.is_empty() {
        println!("\nClaims are about other sizes; nothing to judge");
    }
    for Judged { case, claims } in judged {
        let title = format!("Claims at {}", case.name(results.endpoints_per_service));
        table::print(&title, &claims.iter().map(claim_cells).collect::<Vec<_>>());
    }
}

fn claim_cells(claim: &Claim) -> Vec<String> {
    let verdict = if claim.holds { "holds" } else { "DOES NOT HOLD" };
    row([claim.what, &claim.measured, &claim.limit, verdict])
}

pub(crate) fn markdown(results: &Results, which: Which) -> String {
    let sizes: Vec<&SizeResult> = match which {
        Which::All => results.sizes.iter().collect(),
        Which::Largest => claims::shown(results).into_iter().collect(),
    };
    let tables: Vec<String> = sizes.into_iter().map(|size| markdown_table(results, size)).collect();
    let claims = match which {
        Which::All => markdown_claims(results),
        Which::Largest => String::new(),
    };
    format!("{}\n{claims}{}\n", tables.join("\n"), origin(results))
}

fn markdown_claims(results: &Results) -> String {
    let line = |claim: &Claim| format!("| {} |\n", claim_cells(claim).join(" | "));
    let table = |judged: Judged| {
        let variant = judged.case.variant.map(|variant| format!(", {}", variant.name())).unwrap_or_default();
        let services = thousands(judged.case.services);
        let lines: String = judged.claims.iter().map(line).collect();
        format!(
            "| claimed at {services} services{variant} | measured | limit | |\n| --- | --- | --- | --- |\n{lines}\n"
        )
    };
    claims::judge(results).into_iter().map(table).collect()
}

fn markdown_table(results: &Results, size: &SizeResult) -> String {
    let head = format!(
        "| {} | {} | {} | factor |\n| --- | ---: | ---: | ---: |\n",
        size.case().name(results.endpoints_per_service),
        Contestant::Ours.name(),
        results.versions.upstream.replace("Kubernetes", "kube-proxy"),
    );
    let lines: String = ROWS.iter().map(|row| format!("| {} |\n", row.cells(size).join(" | "))).collect();
    head + &lines
}

fn origin(results: &Results) -> String {
    let Machine { kernel, processors, .. } = &results.machine;
    let busy = match results.machine.is_busy() {
        true => " The machine was busy with other work, so times are longer than they need be.",
        false => "",
    };
    let command = match results.mode {
        Mode::Nftables => "`make compare`: nftables mode".to_owned(),
        Mode::Ipvs => "`make compare MODE=ipvs`: ipvs mode".to_owned(),
        Mode::Iptables => format!("`make compare MODE=iptables`: {}", results.versions.iptables),
    };
    format!("One run of {command}, Linux {kernel}, {processors} CPUs.{busy}")
}

/// 10000 as 10,000.
pub(crate) fn thousands(number: u32) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", number / 1_000, number % 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(Unit::Millis.write(17.344), "17.3 ms");
        assert_eq!(Unit::Millis.write(17_844.0), "17.8 s");
        assert_eq!(Unit::Megabytes.write(195.4), "195 MB");
        assert_eq!(Unit::Share.write(0.0478), "4.78 %");
        assert_eq!(Unit::Share.write(0.000_01), "0 %");
        assert_eq!(thousands(10_000), "10,000");
    }
}
