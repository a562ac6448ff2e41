//! Claims against the plainest possible account of them.
#![allow(clippy::unwrap_used)] // Clippy sees no #[test] on helpers of tests.

use std::collections::{BTreeMap, BTreeSet};

use model::{Address, Claim, Claims, Contest, Family, Pair, Protocol, Role, ServiceKey};
use proptest::collection::vec;
use proptest::prelude::*;

type Wanted = (Protocol, Address, Role);

/// A service takes this state; nothing wanted means it is removed.
#[derive(Clone, Debug)]
struct Step {
    name: &'static str,
    created: i64,
    wanted: Vec<Wanted>,
}

/// A cluster IP comes before a load-balancer address, and that before what anybody may write.
fn title(role: Role) -> usize {
    let better = [Role::ClusterIp, Role::LoadBalancerIp];
    better.iter().position(|better| *better == role).unwrap_or(better.len())
}

/// Who owns each destination, worked out from scratch.
#[derive(Default)]
struct Account(BTreeMap<&'static str, (i64, Vec<Wanted>)>);

impl Account {
    fn owners(&self) -> BTreeMap<(Protocol, Address), &'static str> {
        let mut best = BTreeMap::new();
        for (name, (created, wanted)) in &self.0 {
            for (protocol, at, role) in wanted {
                let rank = (title(*role), *created, *name);
                let held = best.entry((*protocol, *at)).or_insert(rank);
                *held = rank.min(*held);
            }
        }
        best.into_iter().map(|(spot, (_, _, name))| (spot, name)).collect()
    }
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let roles = prop_oneof![Just(Role::ClusterIp), Just(Role::LoadBalancerIp), Just(Role::ExternalIp)];
    let vip = (0..3u8, roles).prop_map(|(n, role)| (Address::Vip([10, 0, 0, n].into(), 80), role));
    let node_port = (30000..30003u16).prop_map(|port| (Address::NodePort(port), Role::NodePort));
    let protocol = prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)];
    (protocol, prop_oneof![vip, node_port]).prop_map(|(protocol, (at, role))| (protocol, at, role))
}

fn step() -> impl Strategy<Value = Step> {
    let name = prop_oneof![Just("d/a"), Just("d/b"), Just("d/c"), Just("d/d"), Just("d/e")];
    (name, 0..3i64, vec(wanted(), 0..5)).prop_map(|(name, created, wanted)| Step { name, created, wanted })
}

fn apply(claims: &mut Claims, step: &Step) -> Vec<ServiceKey> {
    claims.update(&ServiceKey::from(step.name), step.created, step.wanted.iter().copied())
}

/// The steps in their order: after each, ownership is that of the account and the others told are those that moved.
fn replay(steps: &[Step]) -> Result<(), TestCaseError> {
    let (mut claims, mut account) = (Claims::new(Family::V4), Account::default());
    let mut listener = Listener::default();
    for step in steps {
        let before = account.owners();
        let told = apply(&mut claims, step);
        account.0.insert(step.name, (step.created, step.wanted.clone()));
        let after = account.owners();

        let mut moved = BTreeSet::new();
        for spot in before.keys().chain(after.keys()) {
            if before.get(spot) != after.get(spot) {
                moved.extend([before.get(spot), after.get(spot)].into_iter().flatten().copied());
            }
        }
        moved.remove(step.name);
        prop_assert!(told.iter().map(|name| &**name).eq(moved.iter().copied()), "{told:?} {moved:?}");
        for ((protocol, at), owner) in &after {
            for name in account.0.keys() {
                prop_assert_eq!(claims.owns(name, *protocol, *at), name == owner);
            }
        }
        for (protocol, at) in before.keys().filter(|spot| !after.contains_key(spot)) {
            prop_assert!(!account.0.keys().any(|name| claims.owns(name, *protocol, *at)));
        }
        listener.hear(&mut claims);
        check_contests(&claims, &account, &listener)?;
    }
    Ok(())
}

/// What an observer knows who only ever got the news.
#[derive(Default)]
struct Listener {
    contests: BTreeMap<Pair, Contest>,
    addresses: usize,
}

impl Listener {
    fn hear(&mut self, claims: &mut Claims) {
        let Some(news) = claims.news() else { return };
        for (pair, contest) in news.pairs {
            match contest {
                Some(contest) => self.contests.insert(pair, contest),
                None => self.contests.remove(&pair),
            };
        }
        assert_eq!(news.total_pairs, self.contests.len());
        self.addresses = news.addresses;
    }
}

fn check_contests(claims: &Claims, account: &Account, listener: &Listener) -> Result<(), TestCaseError> {
    let owners = account.owners();
    let mut between: BTreeMap<Pair, BTreeSet<Claim>> = BTreeMap::new();
    for (name, (_, wanted)) in &account.0 {
        for (protocol, at, _) in wanted {
            let owner = owners[&(*protocol, *at)];
            if owner != *name {
                let pair = Pair { owner: owner.into(), loser: (*name).into() };
                between.entry(pair).or_default().insert(Claim { at: *at, protocol: *protocol });
            }
        }
    }
    let contest = |(pair, claims): (&Pair, &BTreeSet<Claim>)| {
        (pair.clone(), Contest { example: *claims.first().unwrap(), addresses: claims.len() })
    };
    let expected: BTreeMap<Pair, Contest> = between.iter().map(contest).collect();
    prop_assert_eq!(&listener.contests, &expected);
    prop_assert!(expected.iter().all(|(pair, contest)| claims.contest(pair) == Some(*contest)));
    let contested: BTreeSet<&Claim> = between.values().flatten().collect();
    prop_assert_eq!(listener.addresses, contested.len());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ownership_follows_rank_and_every_move_is_told(steps in vec(step(), 0..12)) {
        replay(&steps)?;
    }

    #[test]
    fn the_order_of_services_does_not_matter(
        (first, second) in vec(step(), 0..8).prop_map(|mut steps| {
            steps.sort_by_key(|step| step.name);
            steps.dedup_by_key(|step| step.name);
            steps
        }).prop_flat_map(|steps| (Just(steps.clone()), Just(steps).prop_shuffle())),
    ) {
        let [(one, told), (other, told_other)] = [&first, &second].map(|steps| {
            let (mut claims, mut listener) = (Claims::new(Family::V4), Listener::default());
            for step in steps {
                apply(&mut claims, step);
            }
            listener.hear(&mut claims);
            (claims, listener.contests)
        });
        prop_assert_eq!(told, told_other);
        for step in &first {
            for (protocol, at, _) in &step.wanted {
                prop_assert_eq!(one.owns(step.name, *protocol, *at), other.owns(step.name, *protocol, *at));
            }
        }
    }
}
