//! Odd but valid objects, random ones, through a real apiserver: whatever it takes, the agent goes on. Beside them an
//! ordinary service changes all the time and must be right soon after each change. After every batch the kernel must
//! hold what an agent programs that has just started; and the log stays short.
//!
//! `POINTSMAN_SEED=N` repeats a run, `POINTSMAN_ODD_SECONDS=N` makes it longer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod annotations;
mod canary;
mod chaos;
mod kernel_state;
mod node;
mod pools;
mod scene;
mod services;
mod slices;
mod writer;

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use canary::Canary;
use chaos::Chaos;
use scene::Scene;
use test_support::Report;

const SECONDS: u64 = 30;
const WRITES_A_BATCH: usize = 40;
/// Fewer, and the generator no longer makes what an apiserver takes.
const ACCEPTED_PERCENT: usize = 50;

fn main() -> ExitCode {
    let mut report = Report::from_args();
    drop(conformance_support::cases(&mut report, &[(&[("odd objects", run as fn(&Scene))], 1)], |kit| {
        Scene::set(kit)
    }));
    report.finish()
}

fn run(scene: &Scene) {
    let seed = number("POINTSMAN_SEED").unwrap_or_else(random);
    let length = Duration::from_secs(number("POINTSMAN_ODD_SECONDS").unwrap_or(SECONDS));
    println!("POINTSMAN_SEED={seed}");
    let mut chaos = Chaos::new(seed, scene);
    let started = Instant::now();
    std::thread::scope(|scope| {
        let mut canary = Canary::start(scope, scene);
        let mut twin = scene.twin();
        let mut batches = 0;
        while started.elapsed() < length || batches == 0 {
            let mark = scene.log_mark();
            (0..WRITES_A_BATCH).for_each(|_| chaos.step());
            let what = || format!("POINTSMAN_SEED={seed}, batch {batches}:\n{}", chaos.told());
            scene.compare_with_a_fresh_start(&mut twin, batches, &what);
            scene.check_log(mark, WRITES_A_BATCH, &what);
            canary.check(&what);
            chaos.forget();
            batches += 1;
        }
        let (changes, worst) = canary.finish();
        println!(
            "{batches} batches; {}; {changes} changes of the ordinary service, the slowest after {} ms",
            chaos.tally(),
            worst.as_millis()
        );
    });
    if number("POINTSMAN_ODD_SECONDS").is_some() {
        println!("{}", chaos.refusals());
    }
    assert!(chaos.accepted_percent() >= ACCEPTED_PERCENT, "too few were accepted: {}", chaos.refusals());
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

fn random() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_micros() as u64 % 1_000_000)
}
