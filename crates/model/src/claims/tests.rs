//! Ownership, case by case.

use super::*;
use crate::fixtures::ip;
use Protocol::{Tcp, Udp};
use Role::{ClusterIp, ExternalIp, LoadBalancerIp, NodePort};

type Wanted = (Protocol, Address, Role);

fn vip(role: Role) -> Wanted {
    (Tcp, Address::Vip(ip("198.51.100.1"), 80), role)
}

fn node_port(number: u16) -> Wanted {
    (Tcp, Address::NodePort(number), NodePort)
}

fn key(name: &str) -> ServiceKey {
    ServiceKey::from(name)
}

fn pair(owner: &str, loser: &str) -> Pair {
    Pair { owner: key(owner), loser: key(loser) }
}

fn names(services: &[ServiceKey]) -> Vec<&str> {
    services.iter().map(|name| &**name).collect()
}

fn owner_of<'a>(claims: &Claims, (protocol, at, _): Wanted, of: &[&'a str]) -> Vec<&'a str> {
    of.iter().copied().filter(|name| claims.owns(name, protocol, at)).collect()
}

#[test]
fn the_better_claim_wins_in_either_order() {
    // What it shows; winner and loser: name, age, claim.
    type Party<'a> = (&'a str, i64, Wanted);
    let cases: [(&str, Party<'_>, Party<'_>); 7] = [
        ("older", ("d/b", 1, vip(ExternalIp)), ("d/a", 2, vip(ExternalIp))),
        ("same age: smaller name", ("d/a", 1, vip(ExternalIp)), ("d/b", 1, vip(ExternalIp))),
        ("cluster IP before age", ("d/b", 9, vip(ClusterIp)), ("d/a", 1, vip(ExternalIp))),
        ("cluster IP before load balancer", ("d/b", 9, vip(ClusterIp)), ("d/a", 1, vip(LoadBalancerIp))),
        ("load balancer before external IP", ("d/b", 9, vip(LoadBalancerIp)), ("d/a", 1, vip(ExternalIp))),
        ("two balancers: older", ("d/b", 1, vip(LoadBalancerIp)), ("d/a", 2, vip(LoadBalancerIp))),
        ("node port", ("d/b", 1, node_port(30000)), ("d/a", 2, node_port(30000))),
    ];
    for (what, winner, loser) in cases {
        let both = [winner.0, loser.0];
        for (first, second, moved) in [(winner, loser, vec![]), (loser, winner, vec![loser.0])] {
            let mut claims = Claims::new(Family::V4);
            assert!(claims.update(&key(first.0), first.1, [first.2]).is_empty(), "{what}");
            assert_eq!(owner_of(&claims, first.2, &both), [first.0], "{what}");
            assert_eq!(names(&claims.update(&key(second.0), second.1, [second.2])), moved, "{what}");
            assert_eq!(owner_of(&claims, winner.2, &both), [winner.0], "{what}");
            let claim = Claim { at: winner.2.1, protocol: winner.2.0 };
            let contest = Contest { example: claim, addresses: 1 };
            assert_eq!(claims.contest(&pair(winner.0, loser.0)), Some(contest), "{what}");
            assert_eq!(claims.contest(&pair(loser.0, winner.0)), None, "{what}");
            let news = claims.news().unwrap();
            assert_eq!(news.pairs, [(pair(winner.0, loser.0), Some(contest))], "{what}");
            assert_eq!((news.total_pairs, news.addresses), (1, 1), "{what}");
            assert_eq!(claims.news(), None, "{what}");

            assert_eq!(names(&claims.remove(&key(winner.0))), [loser.0], "{what}");
            assert_eq!(owner_of(&claims, winner.2, &both), [loser.0], "{what}");
            let news = claims.news().unwrap();
            assert_eq!(news.pairs, [(pair(winner.0, loser.0), None)], "{what}");
            assert_eq!((news.total_pairs, news.addresses), (0, 0), "{what}");
            assert!(claims.remove(&key(loser.0)).is_empty(), "{what}");
            assert!(owner_of(&claims, winner.2, &both).is_empty(), "{what}");
        }
    }
}

#[test]
fn different_protocol_port_or_kind_is_no_conflict() {
    let mut claims = Claims::new(Family::V4);
    let at = |protocol, port| (protocol, Address::Vip(ip("198.51.100.1"), port), ExternalIp);
    let wanted =
        [at(Tcp, 80), at(Udp, 80), at(Tcp, 81), node_port(80), (Udp, Address::NodePort(80), NodePort)];
    for (i, wish) in wanted.into_iter().enumerate() {
        assert!(claims.update(&key(&format!("d/{i}")), 0, [wish]).is_empty());
        assert!(claims.owns(&format!("d/{i}"), wish.0, wish.1));
    }
    assert_eq!(claims.news(), None);
}

#[test]
fn a_loser_in_the_middle_of_the_queue_disturbs_nobody() {
    let mut claims = Claims::new(Family::V4);
    for (name, created) in [("d/c", 3), ("d/a", 1), ("d/b", 2)] {
        claims.update(&key(name), created, [vip(ExternalIp)]);
    }
    assert!(claims.remove(&key("d/b")).is_empty());
    assert_eq!(names(&claims.remove(&key("d/a"))), ["d/c"]);
}

#[test]
fn a_recreated_service_loses_its_age() {
    let mut claims = Claims::new(Family::V4);
    claims.update(&key("d/a"), 1, [vip(ExternalIp), node_port(1)]);
    claims.update(&key("d/b"), 2, [vip(ExternalIp)]);
    assert_eq!(names(&claims.update(&key("d/a"), 3, [vip(ExternalIp), node_port(1)])), ["d/b"]);
    assert_eq!(owner_of(&claims, vip(ExternalIp), &["d/a", "d/b"]), ["d/b"]);
    assert!(claims.owns("d/a", Tcp, Address::NodePort(1)));
}

#[test]
fn a_change_elsewhere_in_a_service_moves_nobody() {
    let mut claims = Claims::new(Family::V4);
    claims.update(&key("d/a"), 1, [vip(ExternalIp)]);
    claims.update(&key("d/b"), 2, [vip(ExternalIp)]);
    assert!(claims.update(&key("d/a"), 1, [vip(ExternalIp), node_port(1)]).is_empty());
    assert!(claims.update(&key("d/a"), 1, [node_port(1), vip(ExternalIp)]).is_empty());
    assert!(claims.update(&key("d/a"), 0, [vip(ClusterIp)]).is_empty());
    assert_eq!(owner_of(&claims, vip(ExternalIp), &["d/a", "d/b"]), ["d/a"]);
}

#[test]
fn the_other_family_has_claims_of_its_own() {
    let six = (Tcp, Address::Vip(ip("2001:db8::1"), 80), ExternalIp);
    let mut claims = Claims::new(Family::V6);
    claims.update(&key("d/a"), 1, [vip(ExternalIp), six, node_port(1)]);
    assert!(claims.owns("d/a", six.0, six.1));
    assert!(claims.owns("d/a", Tcp, Address::NodePort(1)));
    assert!(!claims.owns("d/a", Tcp, vip(ExternalIp).1));
}

#[test]
fn an_unknown_service_owns_nothing_and_leaves_nothing() {
    let mut claims = Claims::new(Family::V4);
    assert!(claims.remove(&key("d/a")).is_empty());
    assert!(!claims.owns("d/a", Tcp, Address::NodePort(1)));
    assert_eq!(claims.news(), None);
}

#[test]
fn ten_thousand_contested_addresses_are_one_piece_of_news() {
    let mut claims = Claims::new(Family::V4);
    let wanted = || (1..=10_000).map(|port| (Tcp, Address::Vip(ip("198.51.100.1"), port), ExternalIp));
    claims.update(&key("d/a"), 1, wanted());
    claims.update(&key("d/b"), 2, wanted());
    let news = claims.news().unwrap();
    let example = Claim { at: Address::Vip(ip("198.51.100.1"), 1), protocol: Tcp };
    let contest = Contest { example, addresses: 10_000 };
    assert_eq!(news.pairs, [(pair("d/a", "d/b"), Some(contest))]);
    assert_eq!((news.total_pairs, news.addresses), (1, 10_000));
    claims.update(&key("d/c"), 3, [node_port(1)]);
    claims.update(&key("d/b"), 2, wanted());
    assert_eq!(claims.news(), None, "nothing changed for anybody who contests");
}

/// They cannot all be reported at once, and the owner changes again meanwhile.
#[test]
fn everybody_behind_a_new_owner_is_told_in_the_end() {
    let mut claims = Claims::new(Family::V4);
    let name = |number: i64| key(&format!("d/{number}"));
    let wanted = [vip(ExternalIp), node_port(1), node_port(2)];
    for number in 0..3000 {
        claims.update(&name(number), number, wanted);
    }
    let mut heard = std::collections::BTreeMap::new();
    let mut hear = |claims: &mut Claims, times: usize| {
        for news in (0..times).filter_map(|_| claims.news()) {
            heard.extend(news.pairs);
            heard.retain(|_, contest| contest.is_some());
            assert_eq!(news.total_pairs, heard.len());
        }
        heard.clone()
    };
    assert_eq!(hear(&mut claims, 1).len(), 2999, "who joins is told at once");
    assert_eq!(names(&claims.remove(&name(0))), ["d/1"]);
    let told = hear(&mut claims, 1).keys().filter(|pair| pair.owner == name(1)).count();
    assert!((1..2998).contains(&told), "{told}");
    claims.remove(&name(1));
    claims.remove(&name(1500));
    claims.update(&name(2999), 2999, [vip(LoadBalancerIp)]);
    let heard = hear(&mut claims, 30);
    let example = |at| Claim { at, protocol: Tcp };
    for number in 3..2999 {
        let ports = Contest { example: example(Address::NodePort(1)), addresses: 2 };
        let address = Contest { example: example(vip(ExternalIp).1), addresses: 1 };
        let expected = (number != 1500).then_some((Some(ports), Some(address)));
        let between =
            |owner: i64| heard.get(&Pair { owner: name(owner), loser: name(number) }).copied().flatten();
        assert_eq!(
            between(2).zip(between(2999)).map(|(one, other)| (Some(one), Some(other))),
            expected,
            "{number}"
        );
    }
    assert_eq!(heard.len(), 2 * 2995 + 1, "and the former owner of the address");
}

#[test]
fn an_address_tells_its_owner_its_rivals_and_its_neighbours() {
    let mut claims = Claims::new(Family::V4);
    let (protocol, at, _) = vip(ExternalIp);
    let claim = Claim { at, protocol };
    claims.update(&key("d/b"), 1, [vip(ExternalIp)]);
    claims.update(&key("d/c"), 3, [vip(ExternalIp), node_port(80)]);
    claims.update(&key("d/a"), 2, [vip(ExternalIp), (Udp, at, ExternalIp)]);
    assert_eq!(claims.owner(claim).map(|name| &**name), Some("d/b"));
    assert_eq!(claims.rivals(claim, 1), (2, vec![key("d/a")]));
    assert_eq!(claims.rivals(Claim { protocol: Udp, ..claim }, 9), (0, vec![]));
    let there = [(claim, key("d/b")), (Claim { protocol: Udp, ..claim }, key("d/a"))];
    assert_eq!(claims.at(ip("198.51.100.1"), 9), there);
    assert_eq!(claims.at(ip("198.51.100.2"), 9), []);
    assert_eq!(claims.at(ip("fd00::1"), 9), []);
}
