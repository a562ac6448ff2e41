//! What others do to our virtual servers and routes is found by looking at a share at a time.

use std::time::Duration;

use super::*;
use crate::common::service;
use dataplane::Backend as _;
use kernel::ipvs::Batch;

fn is_noticed_and_repaired(damage: &dyn Fn(&mut Machine)) {
    let (mut reconciler, fixture) = synced();
    assert!(!is_noticed(&mut reconciler));
    damage(&mut machine(&mut reconciler).machine());
    assert!(is_noticed(&mut reconciler));
    assert!(sync(&mut reconciler, &fixture, &[]).full);
    machine(&mut reconciler).machine().ipvs.end_all();
    assert!(!is_noticed(&mut reconciler));
    assert_as_fresh(&mut reconciler, &fixture, "repaired");
}

fn command(change: impl Fn(&mut Batch)) -> impl Fn(&mut Machine) {
    move |machine| {
        let mut batch = Batch::new();
        change(&mut batch);
        assert_eq!(machine.ipvs.commit(&batch).unwrap(), []);
    }
}

#[test]
fn damage_is_noticed_and_repaired() {
    let (web, here) = (server("10.96.0.1", 80), at("10.244.1.11"));
    is_noticed_and_repaired(&command(|batch| assert_eq!(batch.delete_service(web), 0)));
    is_noticed_and_repaired(&command(|batch| assert_eq!(batch.delete_destination(web, here), 0)));
    is_noticed_and_repaired(&command(|batch| assert_eq!(batch.set_destination(web, here, 7), 0)));
    is_noticed_and_repaired(&command(|batch| assert_eq!(batch.new_destination(web, at("10.0.0.9"), 1), 0)));
    is_noticed_and_repaired(&|machine| machine.routing.local.clear());
}

#[test]
fn a_look_costs_a_share_and_a_round_takes_one_period() {
    let (mut reconciler, mut fixture) = (reconciler(), Fixture::default());
    for last in 1..=200 {
        fixture.add(&format!("default/s{last}"), service(last), &PODS);
    }
    sync(&mut reconciler, &fixture, &[]);
    let looks = reconciler.backend().looks(Duration::from_secs(20));
    let looks = (looks.longest.as_secs_f64() / looks.usual.as_secs_f64()).round() as usize;
    assert_eq!(looks, 20);
    let mut all = 0;
    for _ in 0..looks {
        let asked = questions(&mut reconciler);
        // Eleven services, each a server and its destinations: a round takes nine tenths of a period.
        assert!(asked <= 2 * 11 + 2, "{asked} questions");
        all += asked;
    }
    assert!((400..=450).contains(&all), "{all} questions in a period");
    let machine = machine(&mut reconciler);
    let mut batch = Batch::new();
    batch.delete_service(server("10.96.0.77", 80));
    machine.machine().ipvs.commit(&batch).unwrap();
    assert!((0..looks).any(|_| reconciler.check(Family::V4)), "not found within the period");
}

/// What a look asks the kernel.
fn questions(reconciler: &mut Simulated) -> usize {
    let before = machine(reconciler).operations().0;
    assert!(!reconciler.check(Family::V4));
    machine(reconciler).operations().0 - before
}

#[test]
fn a_node_with_few_services_is_left_alone_most_of_the_time() {
    let (mut reconciler, mut fixture) = (reconciler(), Fixture::default());
    fixture.add("default/s1", service(1), &PODS);
    sync(&mut reconciler, &fixture, &[]);
    reconciler.backend().looks(Duration::from_secs(60));
    let asked: Vec<usize> = (0..60).map(|_| questions(&mut reconciler)).collect();
    assert!(asked.iter().filter(|asked| **asked > 0).count() <= 5, "{asked:?}");
    assert!(asked.iter().sum::<usize>() >= 2, "{asked:?}");
}
