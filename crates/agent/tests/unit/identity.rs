//! Which Node the agent is, and which detector it uses while that is not known.

use super::*;
use model::LocalDetector;
use telemetry::logging::capture::heard;

const FIXED: DetectLocal = DetectLocal::Fixed(LocalDetector::None);

fn facts(cidrs: &[&str]) -> NodeFacts {
    NodeFacts {
        primary: ["10.0.0.1".parse().ok(), None],
        pod_cidrs: cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect(),
        eligible: true,
        ..NodeFacts::default()
    }
}

/// The identity of a node of an apiserver, in force.
fn in_force(now: Instant) -> Identity {
    let mut identity = Identity::new(OwnNode::new("one", &FIXED, true));
    identity.observe(|name| (name == "one").then_some(&FACTS), now);
    assert!(identity.is_known(now));
    identity
}

static FACTS: std::sync::LazyLock<NodeFacts> = std::sync::LazyLock::new(|| facts(&[]));
static RANGED: std::sync::LazyLock<NodeFacts> = std::sync::LazyLock::new(|| facts(&["10.1.0.0/24"]));

#[test]
fn pod_cidrs_that_are_not_there_close_no_door() {
    let now = Instant::now();
    let mut identity = in_force(now);
    let (_, log) = heard(&["v=0"], || {
        identity.reconfigure("one", &DetectLocal::NodeCidr, true);
        for hours in 0..3 {
            let now = now + Duration::from_secs(hours * 3600);
            identity.observe(|_| Some(&FACTS), now);
            assert!(identity.is_known(now) && identity.is_changing());
            assert!(identity.next_look(now).is_some(), "it is mentioned again");
        }
        assert_eq!(identity.current().detector(), Some(LocalDetector::None), "the previous one");
        identity.observe(|_| Some(&RANGED), now);
    });
    assert!(!identity.is_changing() && identity.is_known(now));
    assert_eq!(identity.next_look(now), None);
    let wanted = LocalDetector::Cidrs(RANGED.pod_cidrs.to_vec());
    assert_eq!(identity.current().detector(), Some(wanted));
    assert_eq!(log.matches("Keeping the previous node name").count(), 3, "{log}");
    assert_eq!(log.matches("Resolved: ").count(), 1, "{log}");
    assert!(!log.contains("Nothing is programmed"), "{log}");
}

#[test]
fn a_node_that_does_not_exist_is_waited_for_behind_the_previous_one() {
    let now = Instant::now();
    let mut identity = in_force(now);
    identity.reconfigure("two", &FIXED, true);
    // An apiserver that is asked about the other node says nothing of this one.
    identity.observe(|_| None, now);
    assert!(identity.is_known(now) && identity.is_changing() && identity.current().is_eligible());
    assert_eq!(identity.current().name(), "one");
    let later = now + identity.next_look(now).unwrap();
    identity.observe(|_| None, later);
    assert_eq!(identity.current().name(), "two", "the kernel's addresses do, as at a start");
    assert!(identity.is_known(later) && !identity.is_changing());
    // With pod CIDRs nothing else does.
    let mut identity = in_force(now);
    identity.reconfigure("two", &DetectLocal::NodeCidr, true);
    identity.observe(|_| None, now + Duration::from_secs(3600));
    assert_eq!(identity.current().name(), "one");
    identity.reconfigure("one", &FIXED, true);
    identity.observe(|_| None, now);
    assert!(!identity.is_changing() && identity.current().name() == "one", "back again");
}

/// While the wrong name was asked for, the list for it took the Node away.
#[test]
fn a_name_that_is_set_right_again_counts_as_before_until_the_apiserver_answers() {
    let now = Instant::now();
    for detect_local in [FIXED, DetectLocal::NodeCidr] {
        let mut identity = in_force(now);
        identity.reconfigure("two", &detect_local, true);
        identity.nodes_listed();
        identity.observe(|_| None, now);
        assert!(identity.is_changing());
        identity.reconfigure("one", &FIXED, true);
        for _ in 0..3 {
            identity.observe(|_| None, now);
            assert!(identity.current().is_eligible() && !identity.is_changing(), "no answer yet");
        }
        identity.observe(|name| (name == "one").then_some(&FACTS), now);
        assert!(identity.current().is_eligible());
        identity.nodes_listed();
        identity.observe(|_| None, now);
        assert!(!identity.current().is_eligible(), "the apiserver says that it is gone");
    }
}

#[test]
fn what_is_known_already_comes_into_force_at_once() {
    let now = Instant::now();
    let bridge = LocalDetector::Bridge("cbr0".into());
    let mut identity = in_force(now);
    // Its Node object is gone for the moment, as while a kubelet registers again.
    identity.observe(|_| None, now);
    identity.reconfigure("one", &DetectLocal::Fixed(bridge.clone()), true);
    identity.observe(|_| None, now);
    assert!(!identity.is_changing() && identity.current().facts().is_some());
    assert_eq!(identity.current().detector(), Some(bridge));
    let mut manifests = Identity::new(OwnNode::new("one", &FIXED, false));
    assert!(manifests.is_known(now));
    manifests.reconfigure("two", &FIXED, false);
    manifests.observe(|_| None, now);
    assert_eq!(manifests.current().name(), "two", "manifests need no Node");
}

#[test]
fn before_the_first_rules_the_changed_configuration_is_what_counts() {
    let now = Instant::now();
    let mut identity = Identity::new(OwnNode::new("one", &DetectLocal::NodeCidr, true));
    identity.observe(|_| Some(&FACTS), now);
    assert!(!identity.is_known(now));
    identity.reconfigure("one", &FIXED, true);
    identity.observe(|_| Some(&FACTS), now);
    assert!(identity.is_known(now) && !identity.is_changing());
}
