//! `compare`: this project's kube-proxy and upstream's, one after the other on the same control plane with the
//! same objects, each on a fresh node. What is measured and claimed stands in docs/comparison.md and
//! docs/comparison-iptables.md, which this program fills with its numbers. Only wiring is here.

mod arguments;
mod cases;
mod chart;
mod churn;
mod claims;
mod contestant;
mod cpu;
mod document;
mod ground;
mod loading;
mod measure;
mod objects;
mod plane;
mod report;
mod results;
mod running;
mod traffic;

use std::process::ExitCode;

use arguments::Arguments;
use conformance_support::Kit;
use results::Results;
use test_support::Verdict;

/// Whatever stops a measurement; it is printed and ends the run.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    match dispatch() {
        Ok(code) => code,
        Err(failure) => {
            #[expect(clippy::print_stderr, reason = "the last word of a run that failed")]
            {
                eprintln!("compare: {failure}");
            }
            ExitCode::from(2)
        }
    }
}

fn dispatch() -> Result<ExitCode, Failure> {
    let Some(arguments) = arguments::parse(std::env::args().skip(1))? else {
        print!("{}", arguments::HELP);
        return Ok(ExitCode::SUCCESS);
    };
    let Some(results) = obtain(&arguments)? else { return Ok(ExitCode::SUCCESS) };
    let claims = claims::judge(&results);
    report::print(&results, &claims);
    write(&arguments, &results)?;
    let broken = claims.iter().flat_map(|judged| &judged.claims).any(|claim| !claim.holds);
    Ok(if arguments.check && broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// `None` if nothing can be measured here, which has been said then.
fn obtain(arguments: &Arguments) -> Result<Option<Results>, Failure> {
    if let Some(path) = &arguments.from {
        let text = std::fs::read_to_string(path).map_err(|e| format!("reading {}: {e}", path.display()))?;
        return Ok(Some(serde_json::from_str(&text)?));
    }
    if let Err(why) = bench_support::privilege::check() {
        println!("SKIPPED: {why}");
        return Ok(None);
    }
    for variant in arguments.scope.cases.iter().filter_map(|case| case.variant) {
        if let Err(why) = variant.check() {
            println!("SKIPPED: {why}");
            return Ok(None);
        }
    }
    match (Kit::find(), &arguments.beside) {
        (Ok(kit), None) => Ok(Some(measure::everything(&kit, &arguments.scope)?)),
        (Ok(kit), Some(command)) => match measure::beside(&kit, &arguments.scope, command)? {
            status if status.success() => Ok(None),
            status => Err(format!("{command:?}: {status}").into()),
        },
        (Err(Verdict::Skipped(why)), _) => {
            println!("SKIPPED: {why}");
            Ok(None)
        }
        (Err(verdict), _) => Err(format!("{verdict:?}").into()),
    }
}

fn write(arguments: &Arguments, results: &Results) -> Result<(), Failure> {
    if let Some(path) = &arguments.json {
        document::put(path, &format!("{}\n", serde_json::to_string_pretty(results)?))?;
    }
    if let (Some(path), Some(size)) = (&arguments.svg, claims::shown(results)) {
        document::put(path, &chart::draw(size, results.endpoints_per_service))?;
    }
    for path in &arguments.documents {
        document::fill(path, |which| report::markdown(results, which))?;
    }
    Ok(())
}
