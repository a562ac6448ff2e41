//! Tells people which services claim addresses that others have: once per pair of services, in the log and in an event
//! on the service that goes without, and again when it is over.
//!
//! Pairs that cannot be named at once are summed up, and named later.

use std::time::{Duration, Instant};

use cluster::apiserver::Recorder;
use cluster::{Allowance, Rate};
use model::{Contest, ContestNews, Family, Pair};

use crate::events;
use crate::notices::Notices;

/// Pairs that are named after one sync; the others are summed up.
const NAMED_PER_SYNC: usize = 10;
/// How often those that are not named are summed up.
const SUMS: Rate = Rate { burst: 1, pace: Duration::from_secs(60) };

/// What was said about the contested addresses of one family.
pub(crate) struct Contests {
    family: Family,
    recorder: Recorder,
    notices: Notices<Pair, Contest>,
    sums: Allowance,
    /// Pairs that began since the last sum and could not be named.
    left_out: usize,
    /// There are pairs that were only summed up.
    has_unnamed: bool,
}

impl Contests {
    pub(crate) fn new(family: Family, recorder: Recorder) -> Contests {
        Contests {
            family,
            recorder,
            notices: Notices::default(),
            sums: Allowance::new(SUMS),
            left_out: 0,
            has_unnamed: false,
        }
    }

    pub(crate) fn report(&mut self, news: &ContestNews) {
        self.report_at(news, Instant::now());
    }

    fn report_at(&mut self, news: &ContestNews, now: Instant) {
        self.report_ended(news);
        let mut room = NAMED_PER_SYNC;
        // What is new before what waits: those who wait are no obstacle to anybody else.
        for (pair, contest) in &news.pairs {
            let Some(contest) = contest.filter(|_| !self.notices.is_named(pair)) else { continue };
            if room > 0 && self.notices.try_name(pair, now) {
                room -= 1;
                self.name(pair, &contest);
            } else if self.notices.put_off(pair, contest) {
                self.left_out += 1;
            }
        }
        let due = self.notices.take_due(room, now);
        due.iter().for_each(|(pair, contest)| self.name(pair, contest));
        if self.left_out > 0 && self.sums.take(now) {
            self.has_unnamed = true;
            tracing::warn!(
                family = %self.family, pairs = std::mem::take(&mut self.left_out), allPairs = news.total_pairs,
                addresses = news.addresses, "More services claim addresses that other services keep"
            );
        }
    }

    fn name(&self, pair: &Pair, contest: &Contest) {
        let Pair { owner, loser } = pair;
        let note = sentence(pair, contest);
        tracing::warn!(
            family = %self.family, service = %loser, %owner, addresses = contest.addresses, "{note}"
        );
        self.recorder.record(events::addresses_taken(loser, note));
    }

    fn report_ended(&mut self, news: &ContestNews) {
        let ended = news.pairs.iter().filter(|(_, contest)| contest.is_none()).map(|(pair, _)| pair);
        let ended: Vec<&Pair> = ended.filter(|pair| self.notices.end(pair)).collect();
        for Pair { owner, loser } in ended.iter().take(NAMED_PER_SYNC) {
            tracing::info!(
                family = %self.family, service = %loser, %owner,
                "Resolved: {loser} no longer claims an address that {owner} keeps"
            );
        }
        let unnamed = ended.len().saturating_sub(NAMED_PER_SYNC);
        if unnamed > 0 {
            tracing::info!(family = %self.family, pairs = unnamed, "Resolved: more services that claimed the same addresses");
        }
        if news.total_pairs == 0 && std::mem::take(&mut self.has_unnamed) {
            tracing::info!(family = %self.family, "Resolved: no address is claimed by two services any more");
        }
    }
}

fn sentence(Pair { owner, loser }: &Pair, Contest { example, addresses }: &Contest) -> String {
    match addresses.saturating_sub(1) {
        0 => {
            format!("Address {example} is claimed by two services; {owner} keeps it. Change {loser}")
        }
        more => format!(
            "Address {example} and {more} more are claimed by two services; {owner} keeps them. Change {loser}"
        ),
    }
}

#[cfg(test)]
#[path = "../tests/unit/contests.rs"]
mod tests;
