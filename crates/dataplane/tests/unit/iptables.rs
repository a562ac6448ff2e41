//! Unit tests of `iptables`.

use super::*;
use model::LocalDetector;
use simulate::iptables::Simulator;
use std::error::Error as _;

const SECOND: Duration = Duration::from_secs(1);

fn without_tools() -> Iptables<Simulator> {
    let setup = Setup {
        detector: LocalDetector::None,
        masquerade_mark: 1 << 14,
        drop_invalid: true,
        of_mode: model::ModeSettings::default(),
    };
    Iptables::new([None, None], &setup)
}

#[test]
fn a_family_that_the_kernel_lacks_is_no_error_and_one_without_tools_is() {
    let mut backend = without_tools().without_families([false, true]);
    let plans = HashMap::from([(ServiceKey::from("default/web"), ServicePlan::default())]);
    let node = NodePlan::default();
    let error = backend.rewrite(Family::V4, &plans, &node).unwrap_err();
    assert!(error.source().is_some_and(|source| source.is::<NoTools>()), "{error}");
    backend.rewrite(Family::V6, &plans, &node).unwrap();
    backend.apply(Family::V6, &[], (&node, &node)).unwrap();
    assert!(backend.is_intact(Family::V6, &plans, &node));
}

#[test]
fn rules_are_looked_at_every_second_or_every_period() {
    let mut backend = without_tools();
    assert_eq!(backend.looks(30 * SECOND), Looks { usual: SECOND, longest: 5 * SECOND });
    assert_eq!(backend.looks(SECOND / 2).usual, SECOND / 2);
}
