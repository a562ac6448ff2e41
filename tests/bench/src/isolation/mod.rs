//! Whether one tenant's objects hold up another's: how long a change of an ordinary service takes to reach traffic
//! while costly objects are loaded, changed and removed beside it.
//!
//! A change is due at fixed times, and its time counts from there, also if the one before came late: a change that
//! was due while everything stood still is not left out.

mod apiserver;
mod hostile;
pub(crate) mod objects;
mod stage;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::results::Limit;
use crate::{Failure, report};
use apiserver::Verb;
use bench_support::gauge::quantile;
use bench_support::table::{self, row, time};
use hostile::Hostile;
use stage::{Ordinary, Stage};

/// What the ordinary service is promised, at the 99th percentile.
const LIMIT_MS: f64 = 150.0;
/// Between changes of the ordinary service, and of the tenant's objects.
const PERIOD: Duration = Duration::from_millis(25);
const HOSTILE_PERIOD: Duration = Duration::from_millis(100);
/// Changes that do not count, for two seconds: a change waits for at most one after the start.
const WARM_UP: usize = 80;
/// So many changes at least while something is loaded or removed; a shorter time than theirs would show nothing.
const SHORT: usize = 40;
/// The longest a phase goes on; so many slow changes say enough.
const LONGEST: Duration = Duration::from_secs(20);
/// The longest a change is waited for, and a load or removal.
const STUCK: Duration = Duration::from_secs(30);
const SETTLED: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);

#[derive(Clone, Debug, Serialize)]
pub(crate) struct IsolationResult {
    /// The tenant's objects.
    pub(crate) beside: String,
    pub(crate) phases: Vec<PhaseResult>,
}

/// Changes of the ordinary service while something happens.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PhaseResult {
    pub(crate) phase: &'static str,
    pub(crate) changes: usize,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
    /// Until the agent had written what the tenant did.
    pub(crate) settled_ms: Option<f64>,
}

pub(crate) fn measure(kube_proxy: &Path, quick: bool) -> Result<Vec<IsolationResult>, Failure> {
    let changes = if quick { 100 } else { 400 };
    let mut results = Vec::new();
    for hostile in Hostile::ALL {
        report::note(&format!("a change beside {}", hostile.name()));
        results.push(beside(hostile, kube_proxy, changes)?);
    }
    Ok(results)
}

fn beside(hostile: Hostile, kube_proxy: &Path, changes: usize) -> Result<IsolationResult, Failure> {
    let mut stage = Stage::set(kube_proxy)?;
    let mut turn = 0;
    // The first sync writes everything, and what follows it is paced by what it took.
    follow(&stage, &mut turn, |count| count < WARM_UP)?;
    let objects = hostile.objects();
    let mut phases = Vec::new();
    if !objects.is_empty() {
        phases.push(transition(&stage, &mut turn, "loading", || {
            stage.server.apply(Verb::Put, &objects)?;
            stage.put(Ordinary::Beacon, 0)?;
            let read = stage.await_answer(Ordinary::Beacon, Stage::server_of(0), SETTLED);
            read.map(drop).ok_or_else(|| "the tenant's objects were never read".into())
        })?);
    }
    stage.check()?;
    if phases.iter().any(PhaseResult::is_stuck) {
        return Ok(IsolationResult { beside: hostile.name(), phases });
    }
    phases.push(steady(&stage, &mut turn, changes, hostile)?);
    stage.check()?;
    if !objects.is_empty() {
        phases.push(transition(&stage, &mut turn, "removing", || {
            stage.server.apply(Verb::Delete, &objects)?;
            stage.remove(Ordinary::Beacon)?;
            let deadline = Instant::now() + SETTLED;
            while stage.is_answered_by(Ordinary::Beacon, Stage::server_of(0)) {
                if Instant::now() > deadline {
                    return Err("the end of the tenant's objects was never read".into());
                }
                std::thread::sleep(LOOK);
            }
            Ok(())
        })?);
    }
    stage.check()?;
    Ok(IsolationResult { beside: hostile.name(), phases })
}

/// Changes until what `act` does is done and written.
fn transition(
    stage: &Stage,
    turn: &mut u32,
    phase: &'static str,
    act: impl FnOnce() -> Result<(), Failure> + Send,
) -> Result<PhaseResult, Failure> {
    let (done, started) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        let actor = scope.spawn(|| {
            let acted = act().and_then(|()| await_settled(stage));
            done.store(true, Ordering::Relaxed);
            acted.map(|()| started.elapsed())
        });
        let times = follow(stage, turn, |count| count < SHORT || !done.load(Ordering::Relaxed))?;
        let settled = actor.join().map_err(|_| "the tenant's thread panicked")?;
        match settled {
            Err(failure) if !is_stuck(&times) && started.elapsed() < LONGEST => Err(failure),
            settled => Ok(PhaseResult::of(phase, &times, settled.ok())),
        }
    })
}

/// So many changes, with a change of the tenant's from time to time.
fn steady(stage: &Stage, turn: &mut u32, changes: usize, hostile: Hostile) -> Result<PhaseResult, Failure> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let actor = scope.spawn(|| -> Result<(), Failure> {
            for (number, at) in (1..).zip(due(HOSTILE_PERIOD)) {
                // Made before it is due, so that only the sending is left then.
                let change: Vec<_> = hostile.change(number).into_iter().collect();
                std::thread::sleep(at.saturating_duration_since(Instant::now()));
                if done.load(Ordering::Relaxed) {
                    break;
                }
                stage.server.apply(Verb::Put, &change)?;
            }
            Ok(())
        });
        let times = follow(stage, turn, |count| count < changes);
        done.store(true, Ordering::Relaxed);
        actor.join().map_err(|_| "the tenant's thread panicked")??;
        Ok(PhaseResult::of("changing", &times?, None))
    })
}

/// The times of changes of the ordinary service, each from when it was due until a new connection met it. The first that
/// never does in reasonable time is the last.
fn follow(stage: &Stage, turn: &mut u32, wanted: impl Fn(usize) -> bool) -> Result<Vec<f64>, Failure> {
    let (mut times, started) = (Vec::new(), Instant::now());
    for at in due(PERIOD) {
        if !wanted(times.len()) || started.elapsed() > LONGEST {
            break;
        }
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        *turn += 1;
        stage.put(Ordinary::Canary, *turn)?;
        let seen = stage.await_answer(Ordinary::Canary, Stage::server_of(*turn), STUCK);
        let seen_at = seen.unwrap_or_else(Instant::now);
        times.push(seen_at.saturating_duration_since(at).as_secs_f64() * 1e3);
        if seen.is_none() {
            break;
        }
    }
    Ok(times)
}

fn is_stuck(times: &[f64]) -> bool {
    times.last().is_some_and(|ms| *ms >= STUCK.as_secs_f64() * 1e3)
}

fn due(period: Duration) -> impl Iterator<Item = Instant> {
    let started = Instant::now();
    (1..).map(move |number| started + period * number)
}

/// Twice in a row: once could fall between two changes.
fn await_settled(stage: &Stage) -> Result<(), Failure> {
    let (deadline, mut quiet) = (Instant::now() + SETTLED, 0);
    while quiet < 2 {
        if Instant::now() > deadline {
            return Err(format!("the tenant's objects were not written within {SETTLED:?}").into());
        }
        std::thread::sleep(LOOK);
        quiet = if stage.is_settled()? { quiet + 1 } else { 0 };
    }
    Ok(())
}

impl PhaseResult {
    /// Nothing can be measured after it.
    fn is_stuck(&self) -> bool {
        is_stuck(&[self.max_ms])
    }

    fn of(phase: &'static str, times: &[f64], settled: Option<Duration>) -> PhaseResult {
        PhaseResult {
            phase,
            changes: times.len(),
            p50_ms: quantile(times, 0.5),
            p99_ms: quantile(times, 0.99),
            max_ms: quantile(times, 1.0),
            settled_ms: settled.map(|time| time.as_secs_f64() * 1e3),
        }
    }
}

pub(crate) fn judge(results: &[IsolationResult]) -> Vec<Limit> {
    let limit = |beside: &str, phase: &PhaseResult| Limit {
        what: format!("a change beside {beside}, {}: p99", phase.phase),
        measured: format!("{:.1} ms", phase.p99_ms),
        limit: format!("at most {LIMIT_MS} ms"),
        kept: phase.p99_ms <= LIMIT_MS,
    };
    let of_result = |result: &IsolationResult| -> Vec<Limit> {
        result.phases.iter().map(|phase| limit(&result.beside, phase)).collect()
    };
    results.iter().flat_map(of_result).collect()
}

pub(crate) fn print(results: &[IsolationResult]) {
    if results.is_empty() {
        return;
    }
    let mut rows = vec![row(["beside", "while", "p50", "p99", "max", "changes", "written after"])];
    for result in results {
        for phase in &result.phases {
            let of = |ms: f64| time(ms * 1e3);
            rows.push(vec![
                result.beside.clone(),
                phase.phase.to_owned(),
                of(phase.p50_ms),
                of(phase.p99_ms),
                of(phase.max_ms),
                phase.changes.to_string(),
                phase.settled_ms.map(of).unwrap_or_default(),
            ]);
        }
    }
    table::print(
        "An ordinary service's change until traffic follows, beside another tenant's objects",
        &rows,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_change_in_forty_misses_the_limit() {
        let mut times = vec![5.0; SHORT];
        let kept = |times: &[f64]| {
            let phases = vec![PhaseResult::of("loading", times, None)];
            let results = [IsolationResult { beside: "x".to_owned(), phases }];
            judge(&results).iter().all(|limit| limit.kept)
        };
        assert!(kept(&times));
        times[7] = LIMIT_MS + 1.0;
        assert!(!kept(&times));
    }
}
