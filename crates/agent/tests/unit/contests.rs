//! What is said about contested addresses.

use std::net::Ipv4Addr;

use model::{Address, Claims, Protocol, Role, ServiceKey};

use super::*;
use crate::notices::MOST_NAMED;
use telemetry::logging::capture::heard;

fn claim(claims: &mut Claims, service: &str, created: i64, ports: std::ops::RangeInclusive<u16>) {
    let at =
        |port| (Protocol::Tcp, Address::Vip(Ipv4Addr::new(10, 96, 0, 10).into(), port), Role::ExternalIp);
    claims.update(&ServiceKey::from(service), created, ports.map(at));
}

fn report(contests: &mut Contests, claims: &mut Claims) -> String {
    report_at(contests, claims, Instant::now())
}

fn report_at(contests: &mut Contests, claims: &mut Claims, now: Instant) -> String {
    let Some(news) = claims.news() else { return String::new() };
    heard(&["v=2"], || contests.report_at(&news, now)).1
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
fn many_pairs_are_summed_up_and_named_later() {
    let start = Instant::now();
    let mut claims = Claims::new(Family::V4);
    let mut contests = Contests::new(Family::V4, Recorder::nowhere());
    let name = |number: u16| format!("default/web-{number}");
    claim(&mut claims, "default/aa", 1, 1..=5000);
    for number in 1..=5000 {
        claim(&mut claims, &name(number), 2, number..=number);
    }
    let log = report_at(&mut contests, &mut claims, start);
    assert_eq!(log.lines().count(), NAMED_PER_SYNC + 1, "{log}");
    assert!(log.contains("pairs=4990 allPairs=5000 addresses=5000"), "{log}");
    // With the time the others are named too, up to the bound.
    for turn in 1..=200 {
        claim(&mut claims, &name(5000), 2 + turn, 5000..=5000);
        let later = start + Duration::from_secs(600 * u64::try_from(turn).unwrap());
        report_at(&mut contests, &mut claims, later);
    }
    assert_eq!(contests.notices.named_count(), MOST_NAMED);
    // All of them are of one namespace, which does not take the room of others.
    claim(&mut claims, "quiet/web", 3, 1..=1);
    let log = report_at(&mut contests, &mut claims, start + Duration::from_secs(600 * 201));
    assert!(log.contains("default/aa keeps it. Change quiet/web"), "{log}");
    assert_eq!(contests.notices.named_count(), MOST_NAMED);
    claim(&mut claims, "quiet/web", 3, 7000..=7000);
    report(&mut contests, &mut claims);
    claim(&mut claims, "default/aa", 1, 6000..=6000);
    let log = report(&mut contests, &mut claims);
    assert_eq!(log.lines().count(), NAMED_PER_SYNC + 2, "{log}");
    assert!(log.contains("Resolved: no address is claimed by two services any more"), "{log}");
    assert_eq!(contests.notices.known().count(), 0);
}

/// A tenant who keeps starting and ending a contest neither fills the log nor silences it.
#[test]
fn a_contest_that_comes_and_goes_is_reported_at_a_rate() {
    let start = Instant::now();
    let mut claims = Claims::new(Family::V4);
    let mut contests = Contests::new(Family::V4, Recorder::nowhere());
    claim(&mut claims, "default/aa", 1, 80..=90);
    let toggle = |contests: &mut Contests, claims: &mut Claims, now| {
        claim(claims, "tenant/bad", 2, 80..=80);
        let log = report_at(contests, claims, now);
        claim(claims, "tenant/bad", 2, 1..=1);
        log + &report_at(contests, claims, now)
    };
    let log: String = (0..500).map(|_| toggle(&mut contests, &mut claims, start)).collect();
    let named = log.lines().filter(|line| line.contains("Change tenant/bad")).count();
    assert!((1..=3).contains(&named) && log.lines().count() < 20, "{log}");
    assert_eq!(contests.notices.known().count(), 0);
    claim(&mut claims, "other/web", 2, 81..=81);
    let log = report_at(&mut contests, &mut claims, start);
    assert!(log.contains("default/aa keeps it. Change other/web"), "{log}");
    let log = toggle(&mut contests, &mut claims, start + Duration::from_secs(3600));
    assert!(log.contains("Change tenant/bad") && log.contains("pairs=49"), "{log}");
    let lines: usize = (0..3600)
        .map(|second| {
            let now = start + Duration::from_secs(7200 + second);
            toggle(&mut contests, &mut claims, now).lines().count()
        })
        .sum();
    assert!(lines < 200, "{lines} in an hour");
}
