//! Traces that the agent makes for those who ask: each has a thread of its own, which the kernel tells what it sees, and
//! ends with its time or with the connection of the client. Everything is bounded: traces, time, lines and what waits.

mod context;
mod line;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dataplane::trace::{Ended, Matching, Missed, Sighting, Stopper, Tracing};
use hyper::body::Bytes;
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc};

use crate::questions::Asker;
use context::Context;

/// Traces at a time.
const MOST: usize = 2;
/// Connections that one trace tells; then it ends.
const MOST_LINES: usize = 10_000;
/// Connections that wait to be told. More are only counted.
const MOST_WAITING: usize = 1024;

/// Of the process: a changed configuration begins with those that go on.
static SEATS: Semaphore = Semaphore::const_new(MOST);

/// What the thread tells.
enum Told {
    Seen(Duration, Sighting),
    Ended(Ended, Missed),
}

/// Begin, and hand over lines as they come. After an error nothing is left behind.
pub(crate) async fn start(
    matching: Matching,
    lasts: Duration,
    sync_thread: Asker,
) -> Result<mpsc::Receiver<Bytes>, String> {
    let seat =
        SEATS.try_acquire().map_err(|_| format!("{MOST} traces are already running; try again later"))?;
    // Another process may hold the lock of nf_tables for a while. A client that hangs up meanwhile does not end that, so
    // the seat stays taken.
    let begin = move || Tracing::start(matching).map(|tracing| (tracing, seat));
    let begun = tokio::task::spawn_blocking(begin).await;
    let (tracing, seat) = begun.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let stop = StopOnDrop(tracing.stopper());
    let (tell, told) = mpsc::channel(MOST_WAITING);
    let left_out = Arc::new(AtomicU64::new(0));
    let thread = std::thread::Builder::new().name("trace".into());
    let counted = left_out.clone();
    thread
        .spawn(move || {
            let _seat = seat;
            follow(tracing, lasts, &tell, &counted);
        })
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    let (lines, receiver) = mpsc::channel(1);
    let session = Session { matching, lasts, left_out, context: Context::new(sync_thread) };
    tokio::task::spawn_local(async move {
        let _stop = stop;
        session.write(told, &lines).await;
    });
    Ok(receiver)
}

/// On a thread of its own.
fn follow(tracing: Tracing, lasts: Duration, tell: &mpsc::Sender<Told>, left_out: &AtomicU64) {
    let started = Instant::now();
    let (ended, missed) =
        tracing.run(started + lasts, &mut |seen| match tell.try_send(Told::Seen(started.elapsed(), seen)) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                left_out.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        });
    // Who left needs no end.
    let _ = tell.blocking_send(Told::Ended(ended, missed));
}

/// Ends a trace together with what it is for.
struct StopOnDrop(Stopper);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

struct Session {
    matching: Matching,
    lasts: Duration,
    left_out: Arc<AtomicU64>,
    context: Context,
}

impl Session {
    async fn write(mut self, mut told: mpsc::Receiver<Told>, lines: &mpsc::Sender<Bytes>) {
        let mut count = 0;
        let start = line::start(&self.matching, self.lasts);
        if !send(lines, start).await {
            return;
        }
        loop {
            let next = tokio::select! {
                () = lines.closed() => return,
                next = told.recv() => next,
            };
            let line = match next {
                Some(Told::Seen(after, seen)) => {
                    count += 1;
                    let known = self.context.known(&seen).await;
                    line::seen(after, &seen, &known)
                }
                Some(Told::Ended(ended, missed)) => {
                    let left_out = self.left_out.load(Ordering::Relaxed);
                    send(lines, line::end(Some(&ended), missed, count, left_out)).await;
                    return;
                }
                None => return,
            };
            if !send(lines, line).await {
                return;
            }
            if count == MOST_LINES {
                let left_out = self.left_out.load(Ordering::Relaxed);
                send(lines, line::end(None, Missed::default(), count, left_out)).await;
                return;
            }
        }
    }
}

/// Whether the client is still there.
async fn send(lines: &mpsc::Sender<Bytes>, line: Value) -> bool {
    lines.send(Bytes::from(format!("{line}\n"))).await.is_ok()
}
