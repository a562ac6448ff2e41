//! The numbers as tables: aligned on standard output, and as Markdown in the documents.

use gauges::machine::Machine;
use gauges::table::{self, row};

use crate::claims::{self, Claim};
use crate::contestant::Contestant;
use crate::document::Which;
use crate::results::{Measured, Results, SizeResult};

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
    Row { name: "CPU at 60 changes a second", unit: Unit::Share, value: |m| m.churn.cpu, drawn: true },
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
        self.unit.write((self.value)(size.of(who)))
    }

    /// How many times ours upstream's is.
    pub(crate) fn factor(&self, size: &SizeResult) -> String {
        let (ours, upstream) = ((self.value)(&size.ours), (self.value)(&size.upstream));
        match upstream / ours {
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

pub(crate) fn print(results: &Results, claims: &[Claim]) {
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
        table::print(&format!("{} services", thousands(size.services)), &rows);
    }
    match claims {
        [] => println!("\nClaims are about 10,000 services; nothing to judge"),
        claims => table::print("Claims", &claims.iter().map(claim_cells).collect::<Vec<_>>()),
    }
}

fn claim_cells(claim: &Claim) -> Vec<String> {
    let verdict = if claim.holds { "holds" } else { "DOES NOT HOLD" };
    row([claim.what, &claim.measured, &claim.limit, verdict])
}

pub(crate) fn markdown(results: &Results, which: Which) -> String {
    let sizes = match which {
        Which::All => results.sizes.as_slice(),
        Which::Largest => results.sizes.last_chunk::<1>().map(|last| last.as_slice()).unwrap_or_default(),
    };
    let tables: Vec<String> = sizes.iter().map(|size| markdown_table(results, size)).collect();
    let claims = match which {
        Which::All => markdown_claims(results),
        Which::Largest => String::new(),
    };
    format!("{}\n{claims}{}\n", tables.join("\n"), origin(results))
}

fn markdown_claims(results: &Results) -> String {
    let line = |claim: &Claim| format!("| {} |\n", claim_cells(claim).join(" | "));
    let lines: String = claims::judge(results).iter().map(line).collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!(
            "| claimed at 10,000 services | measured | limit | |\n| --- | --- | --- | --- |\n{lines}\n"
        ),
    }
}

fn markdown_table(results: &Results, size: &SizeResult) -> String {
    let head = format!(
        "| {} services × {} endpoints | {} | {} | factor |\n| --- | ---: | ---: | ---: |\n",
        thousands(size.services),
        results.endpoints_per_service,
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
    let mode = results.mode.name();
    format!("One run of `make compare`: {mode} mode, Linux {kernel}, {processors} CPUs.{busy}")
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
