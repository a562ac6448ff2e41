//! What is said about transactions that fail: each reason in full once, the rest as a sum.

use std::time::{Duration, Instant};

use model::{Family, ServiceKey};

/// How often an operator is reminded of a failure that stays.
const REMINDER: Duration = Duration::from_secs(60);
/// Reasons that are logged in full during one series of failures.
const MOST_REASONS: usize = 5;
/// Names in one log line; more say nothing more.
const MOST_NAMES: usize = 5;

/// A transaction that was refused.
pub(crate) struct Attempt<'a> {
    /// Everything was to be written, not only what changed.
    pub(crate) full: bool,
    /// What had changed.
    pub(crate) services: &'a [ServiceKey],
    /// What was being done with which object, and why it failed.
    pub(crate) error: &'a str,
    /// Until it is tried again.
    pub(crate) wait: Duration,
}

/// The failures of one family since its last success.
#[derive(Default)]
pub(crate) struct Failures {
    began: Option<Instant>,
    said: Option<Instant>,
    reasons: Vec<String>,
    times: u64,
}

impl Failures {
    pub(crate) fn note(&mut self, family: Family, attempt: &Attempt<'_>, now: Instant) {
        self.times += 1;
        let began = *self.began.get_or_insert(now);
        let is_new = !self.reasons.iter().any(|reason| reason == attempt.error);
        if is_new && self.reasons.len() < MOST_REASONS {
            self.reasons.push(attempt.error.to_owned());
            tell(family, attempt);
        } else if self.said.is_some_and(|said| now.saturating_duration_since(said) >= REMINDER) {
            tracing::error!(
                %family, times = self.times, seconds = now.saturating_duration_since(began).as_secs(),
                error = attempt.error, wait = ?attempt.wait,
                "Still failing to write rules; the previous rules remain active, retrying"
            );
        } else {
            tracing::debug!(
                %family, times = self.times, error = attempt.error, wait = ?attempt.wait,
                "Still failing to write rules"
            );
            return;
        }
        self.said = Some(now);
    }

    /// It works. How often it did not, and for how long, if so.
    pub(crate) fn end(&mut self, now: Instant) -> Option<(u64, Duration)> {
        let ended = std::mem::take(self);
        ended.began.map(|began| (ended.times, now.saturating_duration_since(began)))
    }
}

fn tell(family: Family, attempt: &Attempt<'_>) {
    let names: Vec<&str> = attempt.services.iter().take(MOST_NAMES).map(|service| &**service).collect();
    let more = if attempt.services.len() > names.len() { ",..." } else { "" };
    tracing::error!(
        %family, writing = if attempt.full { "everything" } else { "changes" }, changed = attempt.services.len(),
        services = format!("{}{more}", names.join(",")), error = attempt.error, wait = ?attempt.wait,
        "Failed to write rules; the previous rules remain active, retrying with a full rewrite"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use telemetry::logging::capture::{heard, messages};

    fn note(failures: &mut Failures, error: &str, at: Instant) {
        let services = ["a/1", "a/2", "a/3", "a/4", "a/5", "a/6"].map(ServiceKey::from);
        let wait = Duration::from_secs(1);
        failures.note(Family::V4, &Attempt { full: false, services: &services, error, wait }, at);
    }

    #[test]
    fn each_reason_once_and_then_a_sum() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (_, log) = heard(&["v=3"], || {
            let mut failures = Failures::default();
            (0..50).for_each(|turn| note(&mut failures, "no memory", at(turn)));
            note(&mut failures, "refused", at(50));
            note(&mut failures, "no memory", at(109));
            note(&mut failures, "no memory", at(110));
            note(&mut failures, "no memory", at(111));
            assert_eq!(failures.end(at(120)), Some((54, Duration::from_secs(120))));
            assert_eq!(failures.end(at(121)), None);
            note(&mut failures, "no memory", at(130));
        });
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 4, "{log}");
        let first = "family=\"IPv4\" writing=\"changes\" changed=6 services=\"a/1,a/2,a/3,a/4,a/5,...\" \
                     err=\"no memory\" wait=\"1s\"";
        assert!(lines[0].ends_with(first), "{log}");
        assert!(lines[1].contains("err=\"refused\""), "{log}");
        assert!(lines[2].contains("times=53 seconds=110 err=\"no memory\""), "{log}");
        assert!(lines[3].ends_with(first), "{log}");
        assert!(lines.iter().all(|line| line.starts_with('E')), "{log}");
    }

    #[test]
    fn reasons_without_end_are_not_told_without_end() {
        let now = Instant::now();
        let (_, log) = heard(&["v=4"], || {
            let mut failures = Failures::default();
            (0..100).for_each(|turn| note(&mut failures, &format!("reason {turn}"), now));
        });
        assert_eq!(log.lines().filter(|line| line.starts_with('E')).count(), MOST_REASONS);
        assert_eq!(messages(&log).len(), 100, "the rest for those who want the details");
    }
}
