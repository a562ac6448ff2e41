//! A small runner for tests without the standard harness: many named cases of one world, run side by side.
//!
//! Arguments that do not begin with a dash pick the cases whose names contain one of them. What libtest would
//! understand beside that is accepted and ignored, except `--list`.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    /// It cannot be run on this machine, and why.
    Skipped(String),
    Failed(String),
}

pub struct Case<'a> {
    name: String,
    run: Box<dyn Fn() -> Verdict + Send + Sync + 'a>,
}

impl<'a> Case<'a> {
    pub fn new(name: impl Into<String>, run: impl Fn() -> Verdict + Send + Sync + 'a) -> Case<'a> {
        Case { name: name.into(), run: Box::new(run) }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// A panic is a failure like any other.
    fn verdict(&self) -> Verdict {
        catch_unwind(AssertUnwindSafe(|| (self.run)()))
            .unwrap_or_else(|panic| Verdict::Failed(message(&*panic)))
    }
}

/// What a panic said.
pub fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_owned()
}

/// Counts, and prints a line a case.
#[derive(Debug, Default)]
pub struct Report {
    filters: Vec<String>,
    list_only: bool,
    passed: usize,
    failed: Vec<String>,
    skipped: usize,
}

impl Report {
    pub fn from_args() -> Report {
        let (flags, filters): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|a| a.starts_with('-'));
        Report { filters, list_only: flags.iter().any(|flag| flag == "--list"), ..Report::default() }
    }

    /// Whether the arguments ask for a case of this name to be run.
    pub fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter))
    }

    pub fn is_list_only(&self) -> bool {
        self.list_only
    }

    /// Run the wanted cases, `at_once` of them side by side; lines come in the order of the cases.
    pub fn run(&mut self, cases: &[Case<'_>], at_once: usize) {
        let wanted: Vec<&Case<'_>> = cases.iter().filter(|case| self.wants(case.name())).collect();
        if self.list_only {
            return wanted.iter().for_each(|case| println!("{}: test", case.name()));
        }
        let next = AtomicUsize::new(0);
        let done: Vec<Mutex<Option<Verdict>>> = wanted.iter().map(|_| Mutex::new(None)).collect();
        std::thread::scope(|scope| {
            for _ in 0..at_once.clamp(1, wanted.len().max(1)) {
                scope.spawn(|| {
                    while let Some(at) =
                        Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < done.len())
                    {
                        *done[at].lock().unwrap() = Some(wanted[at].verdict());
                    }
                });
            }
        });
        for (case, verdict) in wanted.iter().zip(done) {
            self.count(case.name(), verdict.into_inner().unwrap().unwrap_or(Verdict::Passed));
        }
    }

    pub fn count(&mut self, name: &str, verdict: Verdict) {
        match verdict {
            Verdict::Passed => {
                println!("ok: {name}");
                self.passed += 1;
            }
            Verdict::Skipped(why) => {
                println!("SKIPPED: {name}: {why}");
                self.skipped += 1;
            }
            Verdict::Failed(why) => {
                println!("FAILED: {name}: {why}");
                self.failed.push(name.to_owned());
            }
        }
    }

    /// How many failed so far.
    pub fn failures(&self) -> usize {
        self.failed.len()
    }

    /// The closing lines, and the exit code.
    pub fn finish(self) -> ExitCode {
        if self.list_only {
            return ExitCode::SUCCESS;
        }
        for name in &self.failed {
            println!("failed: {name}");
        }
        println!("{} passed, {} failed, {} skipped", self.passed, self.failed.len(), self.skipped);
        if self.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
