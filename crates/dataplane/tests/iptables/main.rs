//! iptables mode over simulated tables: what it writes, how little, and what it leaves alone.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../common/mod.rs"]
mod common;
mod damage;
mod handover;
mod inspected;
mod many;
mod matches;
mod meanwhile;
mod others;
mod packets;
mod reconcile;

use std::collections::BTreeMap;

use common::{Fixture, MARK, pod_cidrs};
use dataplane::iptables::{Counters, INVALID_COUNTER, Iptables, LOCALHOST_COUNTER, refusal_counter};
use dataplane::{Reconciler, Setup, Synced};
use kernel::iptables::Table;
use model::{Family, Planner, ServiceKey};
use simulate::iptables::Simulator;

type Simulated = Reconciler<Iptables<Simulator>>;

const PODS: [(&str, &str); 3] = [("10.244.1.11", "here"), ("10.244.1.12", "here"), ("10.244.2.21", "there")];

fn empty(family: Family) -> Simulator {
    let mut simulator = Simulator::new(family == Family::V6);
    [INVALID_COUNTER, LOCALHOST_COUNTER].iter().for_each(|name| simulator.add_account(name));
    let refusals = model::Refusal::COUNTED.into_iter();
    refusals.for_each(|why| simulator.add_account(&refusal_counter(family, why)));
    simulator
}

fn reconciler() -> Simulated {
    over(empty(Family::V4))
}

fn setup() -> Setup {
    Setup {
        detector: pod_cidrs(),
        masquerade_mark: MARK,
        drop_invalid: true,
        of_mode: model::ModeSettings::default(),
    }
}

fn over(v4: Simulator) -> Simulated {
    Reconciler::new(backend(v4))
}

fn backend(v4: Simulator) -> Iptables<Simulator> {
    let counters = Counters { invalid: true, localhost: true, refusals: true };
    Iptables::new([Some(v4), Some(empty(Family::V6))], &setup()).counting_in(counters)
}

fn sync(reconciler: &mut Simulated, planner: &dyn Planner, dirty: &[&str]) -> Synced {
    let dirty: Vec<ServiceKey> = dirty.iter().map(|name| (*name).into()).collect();
    reconciler.sync(Family::V4, &dirty, planner).unwrap()
}

/// With everything in it.
fn synced() -> (Simulated, Fixture) {
    let (mut reconciler, fixture) = (reconciler(), Fixture::everything());
    sync(&mut reconciler, &fixture, &[]);
    (reconciler, fixture)
}

fn tables(reconciler: &mut Simulated) -> &mut Simulator {
    reconciler.backend().tables(Family::V4).unwrap()
}

/// Every chain with its rules. Endpoints may stand in another order than a first sync gives them, and whichever comes
/// first carries the comment: order, comments and probabilities do not count.
fn contents(simulator: &Simulator) -> BTreeMap<String, Vec<String>> {
    let plain = |rule: String| {
        let mut words: Vec<&str> = rule.split(' ').collect();
        if let Some(at) = words.iter().position(|word| *word == "--probability") {
            words.drain(at - 4..at + 2);
        }
        let rule = words.join(" ");
        match rule.split_once(" -m comment --comment ") {
            Some((before, after)) if rule.contains("DNAT") => {
                let end = after.trim_start_matches('"').find(['"', ' ']).map_or(0, |end| end + 2);
                format!("{before}{}", &after[end.min(after.len())..])
            }
            _ => rule,
        }
    };
    let mut all = BTreeMap::new();
    for table in Table::BOTH {
        for chain in simulator.chains(table) {
            let mut rules: Vec<String> =
                simulator.rules(table, chain).unwrap().into_iter().map(plain).collect();
            rules.sort();
            all.insert(format!("{} {chain}", table.name()), rules);
        }
    }
    all
}

/// The tables hold what a first sync of the same cluster would write.
fn assert_as_fresh(held: &mut Simulated, planner: &dyn Planner, when: &str) {
    let mut fresh = reconciler();
    sync(&mut fresh, planner, &[]);
    assert_eq!(held.programmed(Family::V4), fresh.programmed(Family::V4), "{when}");
    let (held, wanted) = (contents(tables(held)), contents(tables(&mut fresh)));
    for chain in held.keys().chain(wanted.keys()) {
        assert_eq!(held.get(chain), wanted.get(chain), "{when}: {chain}");
    }
}

/// The chain that the rule with this comment leads to.
fn chain_of(simulator: &Simulator, table: Table, comment: &str) -> String {
    let rules = simulator.chains(table).into_iter().flat_map(|chain| simulator.rules(table, chain).unwrap());
    let rule = rules.into_iter().find(|rule| rule.contains(comment)).unwrap();
    rule.rsplit(' ').next().unwrap().to_owned()
}
