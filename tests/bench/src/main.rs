//! `bench`: how long it takes to load services into the real kernel and to change them there, what that
//! weighs, and whether it stays within the limits. Each size runs in a process and a network namespace of
//! its own. Only wiring is here.

mod agent;
mod arguments;
mod bench;
mod changes;
mod children;
mod counting;
mod giants;
mod iptables;
mod isolation;
mod judge;
mod load;
mod manifests;
mod questions;
mod reactions;
mod report;
mod results;
mod scrape;
mod scratch;
mod timed;
mod upstream;
mod userspace;
mod wide;
mod world;
mod yardstick;

use std::process::ExitCode;

use arguments::{Arguments, Command};

/// Whatever stops a measurement; it is printed and ends the run.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    match dispatch() {
        Ok(code) => code,
        Err(failure) => {
            #[expect(clippy::print_stderr, reason = "the last word of a run that failed")]
            {
                eprintln!("bench: {failure}");
            }
            ExitCode::from(2)
        }
    }
}

fn dispatch() -> Result<ExitCode, Failure> {
    match arguments::parse(std::env::args().skip(1))? {
        Command::Help => {
            print!("{}", arguments::HELP);
            Ok(ExitCode::SUCCESS)
        }
        Command::Child(part) => {
            println!("{}", children::run(&part)?);
            Ok(ExitCode::SUCCESS)
        }
        Command::Measure(arguments) => measure(&arguments),
    }
}

fn measure(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if let Err(why) = bench_support::privilege::check() {
        println!("SKIPPED: {why}");
        return Ok(ExitCode::SUCCESS);
    }
    let mut results = report::gather(arguments)?;
    results.limits = judge::judge(&results);
    report::print(&results);
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_string_pretty(&results)?)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    let missed = results.limits.iter().any(|limit| !limit.kept);
    Ok(if arguments.check && missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
