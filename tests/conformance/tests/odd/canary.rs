//! An ordinary service whose endpoint changes all the time: packets must follow each change.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use conformance_support::site::Caller;
use model::{Family, Protocol};
use sandbox::Outcome;
use test_support::{ANSWER, SOON, patient, wait_until};

use crate::scene::{CANARY, Scene};

/// Who answers, in turn; for one turn none does.
const TURNS: [&[&str]; 3] = [&["a"], &["b"], &[]];

/// In which packets have to follow a change.
const IN_TIME: Duration = Duration::from_secs(1);

/// Of so many changes one may take longer: the control plane and the second agent share the machine, and other work may
/// take all of it for a moment.
const ONE_LATE_OF: usize = 20;

/// But none may take as long as this, which is more than a moment.
const TOO_LATE: Duration = Duration::from_secs(5);

pub(crate) struct Canary<'scope> {
    shared: Arc<Shared>,
    thread: Option<ScopedJoinHandle<'scope, ()>>,
    /// Changes that were not in time, and what was written meanwhile.
    late: Vec<(Duration, String)>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    changes: AtomicUsize,
    /// Those since the last check that were not in time.
    late: Mutex<Vec<Duration>>,
    worst: Mutex<Duration>,
    failure: Mutex<Option<String>>,
}

impl<'scope> Canary<'scope> {
    pub(crate) fn start<'env>(scope: &'scope Scope<'scope, 'env>, scene: &'env Scene) -> Canary<'scope> {
        let shared = Arc::new(Shared::default());
        let own = shared.clone();
        let thread = scope.spawn(move || {
            for turn in TURNS.iter().cycle() {
                if own.stop.load(Ordering::Relaxed) || own.failure.lock().unwrap().is_some() {
                    return;
                }
                match change(scene, turn) {
                    Ok(took) => {
                        own.late.lock().unwrap().extend((took > patient(IN_TIME)).then_some(took));
                        let mut worst = own.worst.lock().unwrap();
                        *worst = took.max(*worst);
                    }
                    Err(why) => *own.failure.lock().unwrap() = Some(why),
                }
                own.changes.fetch_add(1, Ordering::Relaxed);
            }
        });
        Canary { shared, thread: Some(thread), late: Vec::new() }
    }

    /// Nothing was wrong since the last check.
    pub(crate) fn check(&mut self, what: &dyn Fn() -> String) {
        if let Some(why) = self.shared.failure.lock().unwrap().clone() {
            panic!("the ordinary service: {why}\n{}", what());
        }
        for took in std::mem::take(&mut *self.shared.late.lock().unwrap()) {
            assert!(took <= patient(TOO_LATE), "a change of the ordinary service took {took:?}\n{}", what());
            self.late.push((took, what()));
        }
    }

    /// How many changes there were, and the longest that one took. Nearly all were in time.
    pub(crate) fn finish(mut self) -> (usize, Duration) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.check(&|| "after the last batch".to_owned());
        let changes = self.shared.changes.load(Ordering::Relaxed);
        let worst = *self.shared.worst.lock().unwrap();
        let late = self.late.len();
        let told = |(took, what): &(Duration, String)| format!("{took:?} while this was written: {what}");
        assert!(
            late <= changes / ONE_LATE_OF,
            "{late} of {changes} changes took over a second, one {worst:?}\n{}",
            self.late.iter().map(told).collect::<Vec<_>>().join("\n")
        );
        (changes, worst)
    }
}

impl Drop for Canary<'_> {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

/// How long packets took to follow, in the slower family.
fn change(scene: &Scene, pods: &[&str]) -> Result<Duration, String> {
    CANARY.serve_by(scene.api(), pods);
    let written = Instant::now();
    for family in Family::BOTH {
        let mut last = Outcome::Closed;
        let right = wait_until(SOON, || {
            last = scene.site.ask(Caller::Pod("guest"), Protocol::Tcp, CANARY.at(family), patient(ANSWER));
            match pods {
                [] => last == Outcome::Refused,
                _ => last.by().is_some_and(|by| pods.contains(&by)),
            }
        });
        if !right {
            return Err(format!("{family}: not {pods:?} after {:?} but {last:?}", written.elapsed()));
        }
    }
    Ok(written.elapsed())
}
