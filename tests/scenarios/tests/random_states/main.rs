//! Random cluster states: after any sequence of incremental syncs, every packet goes where the plan says, and
//! the kernel holds what a fresh start would have written; and an explanation says the same as the packet. Every mode is
//! held to it.
//!
//! A failure names its seed; `POINTSMAN_SEED=N` runs that one alone, `POINTSMAN_SEED=N..M` a longer run.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may fail loudly")]

mod explained;
mod generator;
mod oracle;
mod run;

use std::ops::Range;
use std::panic::catch_unwind;
use std::process::ExitCode;

use test_support::modes::{InMode, for_each_simulated};
use test_support::simulated::Simulated;
use test_support::{Case, Report, Verdict, report};

/// Of each mode, in as many cases as the processors of a small machine can share.
const STATES: u64 = 240;
const PER_CASE: u64 = 60;

fn main() -> ExitCode {
    let mut report = Report::from_args();
    let mut cases = Cases(Vec::new());
    for_each_simulated(&mut cases);
    report.run(&cases.0, 2);
    report.finish()
}

struct Cases(Vec<Case<'static>>);

impl InMode for Cases {
    fn run<B: Simulated + 'static>(&mut self) {
        let mode = B::CARRIER.mode();
        let seeds = match std::env::var("POINTSMAN_SEED") {
            Ok(seeds) => in_cases(asked(&seeds)),
            Err(_) => in_cases(0..STATES),
        };
        let case = |seeds: Range<u64>| {
            Case::new(format!("{mode}: random states, seeds {seeds:?}"), move || states::<B>(seeds.clone()))
        };
        self.0.extend(seeds.into_iter().map(case));
    }
}

/// `7` or `7..9`.
fn asked(seeds: &str) -> Range<u64> {
    let number = |text: &str| text.parse::<u64>().unwrap();
    match seeds.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(seeds)..number(seeds) + 1,
    }
}

fn in_cases(seeds: Range<u64>) -> Vec<Range<u64>> {
    let end = seeds.end;
    seeds.step_by(PER_CASE as usize).map(|first| first..end.min(first + PER_CASE)).collect()
}

fn states<B: Simulated>(seeds: Range<u64>) -> Verdict {
    for seed in seeds {
        if let Err(panic) = catch_unwind(|| run::seed::<B>(seed, B::CARRIER.variants())) {
            return Verdict::Failed(format!("POINTSMAN_SEED={seed}: {}", report::message(&*panic)));
        }
    }
    Verdict::Passed
}
