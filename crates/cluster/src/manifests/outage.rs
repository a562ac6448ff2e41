//! How long to wait before watching again after it failed, and what to say. Pure, but for the log.

use std::io;
use std::time::Duration;

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
    pub(super) fn note(&mut self, error: &io::Error) -> Duration {
        let text = error.to_string();
        if !self.said.contains(&text) {
            tracing::error!(
                "manifests cannot be watched: {text}; the rules stay as they are, and it is tried again"
            );
            self.said.push(text);
        }
        let wait = self.last_wait.map_or(FIRST_WAIT, |last| LONGEST_WAIT.min(last * 2));
        self.last_wait = Some(wait);
        wait
    }

    /// Events come in again.
    pub(super) fn end(&mut self) {
        if self.last_wait.is_some() {
            *self = Outage::default();
            tracing::info!("manifests are watched again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit_and_begin_anew_afterwards() {
        let mut outage = Outage::default();
        let errors = [io::ErrorKind::OutOfMemory, io::ErrorKind::PermissionDenied];
        let waits: Vec<Duration> =
            (0..12).map(|turn| outage.note(&io::Error::from(errors[turn % 2]))).collect();
        assert_eq!(waits[..3], [100, 200, 400].map(Duration::from_millis));
        assert_eq!(waits[11], LONGEST_WAIT);
        assert_eq!(outage.said.len(), 2, "each error once");
        outage.end();
        assert_eq!(outage.note(&io::ErrorKind::OutOfMemory.into()), FIRST_WAIT);
    }
}
