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

/// Of so many changes one may take longer, as far as [`SOON`]: the control plane and the second agent share the machine,
/// and other work may take all of it for a moment.
const ONE_LATE_OF: usize = 20;

pub(crate) struct Canary<'scope> {
    shared: Arc<Shared>,
    thread: Option<ScopedJoinHandle<'scope, ()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    changes: AtomicUsize,
    late: AtomicUsize,
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
                        own.late.fetch_add((took > patient(IN_TIME)).into(), Ordering::Relaxed);
                        let mut worst = own.worst.lock().unwrap();
                        *worst = took.max(*worst);
                    }
                    Err(why) => *own.failure.lock().unwrap() = Some(why),
                }
                own.changes.fetch_add(1, Ordering::Relaxed);
            }
        });
        Canary { shared, thread: Some(thread) }
    }

    /// Nothing was wrong so far.
    pub(crate) fn check(&self, what: &dyn Fn() -> String) {
        if let Some(why) = self.shared.failure.lock().unwrap().clone() {
            panic!("the ordinary service: {why}\n{}", what());
        }
    }

    /// How many changes there were, and the longest that one took. Nearly all were in time.
    pub(crate) fn finish(mut self) -> (usize, Duration) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.check(&String::new);
        let [changes, late] =
            [&self.shared.changes, &self.shared.late].map(|count| count.load(Ordering::Relaxed));
        let worst = *self.shared.worst.lock().unwrap();
        assert!(
            late <= changes / ONE_LATE_OF,
            "{late} of {changes} changes took over a second, one {worst:?}"
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
