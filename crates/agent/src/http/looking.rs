//! Questions to the kernel from a page: by another thread, because the kernel may be committing a large transaction and
//! let them wait; and one after the other, however many clients ask.

use dataplane::{Inspection, InspectionError, Look};
use tokio::sync::Semaphore;
use tokio::task::JoinError;

/// Looks at what was written meanwhile are repeated: so many in all.
pub(super) const TRIES: usize = 3;

/// In mode iptables each is a tool that saves whole tables.
static LOOKS: Semaphore = Semaphore::const_new(1);

pub(super) async fn finish(look: Look) -> Result<Inspection, InspectionError> {
    if let Look::Done(outcome) = look {
        return outcome;
    }
    in_turn(&LOOKS, move || look.finish()).await.unwrap_or_else(|error| Err(error.into()))
}

/// Do it on another thread, once it is its turn. The turn lasts until the work is done, also if the client hangs up
/// meanwhile: it must not be able to start more and more of it.
pub(super) async fn in_turn<T: Send + 'static>(
    turns: &'static Semaphore,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    // It is never closed.
    let turn = turns.acquire().await;
    tokio::task::spawn_blocking(move || {
        let done = work();
        drop(turn);
        done
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn clients_that_hang_up_start_nothing_beside_what_is_under_way() {
        static TURNS: Semaphore = Semaphore::const_new(1);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (begun, seen) = mpsc::channel();
        let (go_on, held_back) = mpsc::channel::<()>();
        let begun_too = begun.clone();
        runtime.block_on(async {
            let first = tokio::spawn(in_turn(&TURNS, move || {
                begun.send("first").unwrap();
                held_back.recv().unwrap();
            }));
            while seen.try_recv().is_err() {
                tokio::task::yield_now().await;
            }
            first.abort();
            assert!(first.await.unwrap_err().is_cancelled());
            assert_eq!(TURNS.available_permits(), 0, "the work goes on, and so does its turn");
            let second = tokio::spawn(in_turn(&TURNS, move || begun_too.send("second").unwrap()));
            tokio::task::yield_now().await;
            assert!(seen.try_recv().is_err(), "it is not its turn yet");
            go_on.send(()).unwrap();
            second.await.unwrap().unwrap();
            assert_eq!(seen.try_recv(), Ok("second"));
        });
    }
}
