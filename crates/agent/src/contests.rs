//! Tells people which services claim addresses that others have: once per pair of services, in the log and in an event
//! on the service that goes without, and again when it is over.

use std::collections::HashSet;

use cluster::apiserver::Recorder;
use model::{Contest, ContestNews, Family, Pair};

use crate::events;

/// Pairs that are named after one sync; the others are summed up.
const NAMED_PER_SYNC: usize = 10;
/// Pairs that are named and not over yet. More than this nobody works through one by one.
const MOST_NAMED: usize = 1000;

/// What was said about the contested addresses of one family.
pub(crate) struct Contests {
    family: Family,
    recorder: Recorder,
    named: HashSet<Pair>,
    /// There are pairs that were only summed up.
    has_unnamed: bool,
}

impl Contests {
    pub(crate) fn new(family: Family, recorder: Recorder) -> Contests {
        Contests { family, recorder, named: HashSet::new(), has_unnamed: false }
    }

    pub(crate) fn report(&mut self, news: &ContestNews) {
        self.report_ended(news);
        let begun = |(pair, contest): &'_ (Pair, Option<Contest>)| Some((pair.clone(), (*contest)?));
        let mut new: Vec<(Pair, Contest)> = news.pairs.iter().filter_map(begun).collect();
        new.retain(|(pair, _)| !self.named.contains(pair));
        let room = MOST_NAMED.saturating_sub(self.named.len()).min(NAMED_PER_SYNC);
        for (pair, contest) in new.iter().take(room) {
            self.name(pair, contest);
        }
        let unnamed = new.len().saturating_sub(room);
        if unnamed > 0 {
            self.has_unnamed = true;
            tracing::warn!(
                family = %self.family, pairs = unnamed, allPairs = news.total_pairs, addresses = news.addresses,
                "More services claim addresses that other services keep"
            );
        }
    }

    fn name(&mut self, pair: &Pair, contest: &Contest) {
        let Pair { owner, loser } = pair;
        let note = sentence(pair, contest);
        tracing::warn!(
            family = %self.family, service = %loser, %owner, addresses = contest.addresses, "{note}"
        );
        self.recorder.record(events::addresses_taken(loser, note));
        self.named.insert(pair.clone());
    }

    fn report_ended(&mut self, news: &ContestNews) {
        let ended = news.pairs.iter().filter(|(_, contest)| contest.is_none()).map(|(pair, _)| pair);
        let ended: Vec<&Pair> = ended.filter(|pair| self.named.remove(*pair)).collect();
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
mod tests {
    use std::net::Ipv4Addr;

    use model::{Address, Claims, Protocol, Role, ServiceKey};

    use super::*;
    use crate::logging::capture::heard;

    fn claim(claims: &mut Claims, service: &str, created: i64, ports: std::ops::RangeInclusive<u16>) {
        let at =
            |port| (Protocol::Tcp, Address::Vip(Ipv4Addr::new(10, 96, 0, 10).into(), port), Role::ExternalIp);
        claims.update(&ServiceKey::from(service), created, ports.map(at));
    }

    fn report(contests: &mut Contests, claims: &mut Claims) -> String {
        let Some(news) = claims.news() else { return String::new() };
        heard(&["v=2"], |_| contests.report(&news)).1
    }

    #[test]
    fn a_pair_is_named_once_and_again_when_it_is_over() {
        let mut claims = Claims::new(Family::V4);
        let mut contests = Contests::new(Family::V4, Recorder::nowhere());
        claim(&mut claims, "default/aa", 1, 80..=80);
        claim(&mut claims, "default/web", 2, 80..=80);
        let log = report(&mut contests, &mut claims);
        let sentence =
            "Address 10.96.0.10:80/tcp is claimed by two services; default/aa keeps it. Change default/web";
        assert!(log.contains(sentence) && log.lines().count() == 1, "{log}");
        claim(&mut claims, "default/aa", 1, 80..=81);
        assert_eq!(report(&mut contests, &mut claims), "", "the same pair");
        claim(&mut claims, "default/web", 2, 90..=90);
        let log = report(&mut contests, &mut claims);
        let sentence = "Resolved: default/web no longer claims an address that default/aa keeps";
        assert!(log.contains(sentence) && log.lines().count() == 1, "{log}");
    }

    #[test]
    fn ten_thousand_addresses_are_one_line() {
        let mut claims = Claims::new(Family::V4);
        let mut contests = Contests::new(Family::V4, Recorder::nowhere());
        claim(&mut claims, "default/aa", 1, 1..=10_000);
        claim(&mut claims, "default/web", 2, 1..=10_000);
        let log = report(&mut contests, &mut claims);
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(log.contains("Address 10.96.0.10:1/tcp and 9999 more are claimed by two services"), "{log}");
    }

    #[test]
    fn many_pairs_are_summed_up() {
        let mut claims = Claims::new(Family::V4);
        let mut contests = Contests::new(Family::V4, Recorder::nowhere());
        let name = |number: u16| format!("default/web-{number}");
        claim(&mut claims, "default/aa", 1, 1..=5000);
        for number in 1..=5000 {
            claim(&mut claims, &name(number), 2, number..=number);
        }
        let log = report(&mut contests, &mut claims);
        assert_eq!(log.lines().count(), NAMED_PER_SYNC + 1, "{log}");
        assert!(log.contains("pairs=4990 allPairs=5000 addresses=5000"), "{log}");
        // One sync each: the rest is named as it is touched, up to the bound.
        for number in 1..=5000 {
            claim(&mut claims, &name(number), 3, number..=number);
            report(&mut contests, &mut claims);
        }
        assert_eq!(contests.named.len(), MOST_NAMED);
        claim(&mut claims, "default/aa", 1, 6000..=6000);
        let log = report(&mut contests, &mut claims);
        assert_eq!(log.lines().count(), NAMED_PER_SYNC + 2, "{log}");
        assert!(log.contains("Resolved: no address is claimed by two services any more"), "{log}");
        assert!(contests.named.is_empty());
    }
}
