//! What is said about damage by others: the first in a while at once, the rest as a sum.

use std::time::{Duration, Instant};

use model::Family;

/// Damage that comes again within this time is only counted.
const REPEATED: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct Repairs {
    said: Option<Instant>,
    since: u32,
    /// A repair that was announced is not done yet.
    under_way: bool,
}

impl Repairs {
    pub(super) fn note(&mut self, family: Family, why: &str, now: Instant) {
        self.since += 1;
        if self.said.is_some_and(|said| now.saturating_duration_since(said) < REPEATED) {
            return;
        }
        if self.since > 1 {
            tracing::warn!(
                %family, times = self.since,
                "{why} repeatedly; is a second kube-proxy running? Rewriting all rules"
            );
        } else {
            tracing::warn!(%family, "{why}; rewriting all rules");
        }
        (self.said, self.since, self.under_way) = (Some(now), 0, true);
    }

    /// The rules are in place. Returns whether that ends a repair that was announced.
    pub(super) fn end(&mut self) -> bool {
        std::mem::take(&mut self.under_way)
    }
}
