//! How long to wait before watching again after it failed, and what to say.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A time in which the manifests cannot be watched.
#[derive(Debug, Default)]
pub(super) struct Outage {
    /// `None`: there is none.
    last_wait: Option<Duration>,
    /// The errors that were logged.
    said: Vec<String>,
}

impl Outage {
    /// It failed, first or again; returns how long to wait. Each error is logged once.
    pub(super) fn note(&mut self, manifests: &Path, error: &io::Error) -> Duration {
        let text = error.to_string();
        if !self.said.contains(&text) {
            tracing::error!(
                manifests = %manifests.display(), %error,
                "Failed to watch the manifests; keeping the current rules and retrying"
            );
            self.said.push(text);
        }
        let wait = self.last_wait.map_or(FIRST_WAIT, |last| LONGEST_WAIT.min(last * 2));
        self.last_wait = Some(wait);
        wait
    }

    /// Events come in again.
    pub(super) fn end(&mut self, manifests: &Path) {
        if self.last_wait.is_some() {
            *self = Outage::default();
            tracing::info!(manifests = %manifests.display(), "Watching the manifests again");
        }
    }
}

/// Wait; breaks as soon as `stop` is readable.
pub(super) fn pause(stop: &OwnedFd, time: Duration) -> ControlFlow<()> {
    let end = Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(stop, PollFlags::IN)];
        match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
            Ok(0) => return ControlFlow::Continue(()),
            Err(Errno::INTR) => {}
            Ok(_) => return ControlFlow::Break(()),
            // Nothing is left to wait with but the thread's own clock.
            Err(_) => {
                std::thread::sleep(left);
                return ControlFlow::Continue(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit_and_start_over_afterwards() {
        let (mut outage, path) = (Outage::default(), Path::new("m"));
        let errors = [io::ErrorKind::OutOfMemory, io::ErrorKind::PermissionDenied];
        let waits: Vec<Duration> =
            (0..12).map(|turn| outage.note(path, &io::Error::from(errors[turn % 2]))).collect();
        assert_eq!(waits[..3], [100, 200, 400].map(Duration::from_millis));
        assert_eq!(waits[11], LONGEST_WAIT);
        assert_eq!(outage.said.len(), 2, "each error once");
        outage.end(path);
        assert_eq!(outage.note(path, &io::ErrorKind::OutOfMemory.into()), FIRST_WAIT);
    }
}
