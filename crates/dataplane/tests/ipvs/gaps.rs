//! No packet meets a gap: one is walked after every single operation of a sync.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use crate::common::{ip, service};
use model::{Service, TrafficPolicy};
use simulate::{Host, Origin, Outcome, Packet};

const NODE: &str = "192.168.50.2";

pub(crate) fn host() -> Host {
    Host::new(vec![ip(NODE)])
}

/// The first packet of a client that is no pod.
pub(crate) fn outside(to: &str, port: u16) -> Packet {
    Packet {
        protocol: Protocol::Tcp,
        source: ip("192.168.60.9"),
        source_port: 40_000,
        destination: ip(to),
        destination_port: port,
        mark: 0,
        origin: Origin::Interface("eth0".to_owned()),
    }
}

fn with_node_port(policy: TrafficPolicy) -> Service {
    let mut service = Service { external_policy: policy, ..service(1) };
    service.ports[0].node_port = std::num::NonZeroU16::new(30_080);
    service
}

/// What becomes of an outsider's packet to the node port after every operation that the change takes.
fn seen(
    before: Option<Service>,
    pods: &[(&str, &'static str)],
    after: Option<Service>,
    then: &[(&str, &'static str)],
) -> Vec<Outcome> {
    let (mut reconciler, mut fixture) = (reconciler(), Fixture::default());
    fixture.add("default/other", service(9), &PODS);
    if let Some(service) = before {
        fixture.add("default/web", service, pods);
    }
    sync(&mut reconciler, &fixture, &[]);
    let outcomes = walk_on_every_operation(&machine(&mut reconciler));
    fixture.services.remove("default/web");
    if let Some(service) = after {
        fixture.add("default/web", service, then);
    }
    sync(&mut reconciler, &fixture, &["default/web"]);
    outcomes.take()
}

fn walk_on_every_operation(machine: &SharedMachine) -> Rc<RefCell<Vec<Outcome>>> {
    let outcomes = Rc::new(RefCell::new(Vec::new()));
    let heard = outcomes.clone();
    machine.look(move |machine| {
        let journey = machine.clone().walk(&host(), outside(NODE, 30_080), &mut |_| 0);
        heard.borrow_mut().push(journey.outcome);
    });
    outcomes
}

/// Answered: by an endpoint here, or masqueraded, so that the answer comes back this way.
fn is_answered(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Delivered(to) => to.port == 8080 && (to.masqueraded || to.to != ip(PODS[2].0)),
        _ => false,
    }
}

fn is_refused(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Rejected(_))
}

#[test]
fn endpoints_are_replaced() {
    let cluster = || Some(with_node_port(TrafficPolicy::Cluster));
    for (before, after) in [(&PODS[..1], &PODS[2..]), (&PODS[2..], &PODS[..2]), (&PODS[..2], &PODS[1..])] {
        let seen = seen(cluster(), before, cluster(), after);
        assert!(seen.len() >= 2 && seen.iter().all(is_answered), "{before:?} to {after:?}: {seen:#?}");
    }
}

#[test]
fn the_policy_flips() {
    let [cluster, local] = [TrafficPolicy::Cluster, TrafficPolicy::Local];
    for (before, after) in [(cluster, local), (local, cluster)] {
        let seen = seen(Some(with_node_port(before)), &PODS, Some(with_node_port(after)), &PODS);
        assert!(seen.len() >= 2 && seen.iter().all(is_answered), "{before:?} to {after:?}: {seen:#?}");
    }
}

#[test]
fn a_node_port_comes_and_goes() {
    let cluster = || Some(with_node_port(TrafficPolicy::Cluster));
    // Until then the packet is for whatever listens on the node.
    let is_untouched = |outcome: &Outcome| matches!(outcome, Outcome::Local(to) if to.port == 30_080);
    let came = seen(Some(service(1)), &PODS, cluster(), &PODS);
    assert!(came.iter().all(|one| is_answered(one) || is_refused(one) || is_untouched(one)), "{came:#?}");
    assert!(came.last().is_some_and(is_answered));
    let gone = seen(cluster(), &PODS, Some(service(1)), &PODS);
    assert!(gone.iter().all(|one| is_answered(one) || is_refused(one) || is_untouched(one)), "{gone:#?}");
    assert!(gone.last().is_some_and(is_untouched), "{gone:#?}");
}

/// The rules in the kernel are of this mode and do not know it.
#[test]
fn a_node_port_comes_while_no_agent_runs() {
    let (mut before, mut fixture) = (reconciler(), Fixture::default());
    fixture.add("default/other", service(9), &PODS);
    sync(&mut before, &fixture, &[]);
    fixture.add("default/web", with_node_port(TrafficPolicy::Cluster), &PODS[2..]);
    let machine = machine(&mut before);
    let outcomes = walk_on_every_operation(&machine);
    sync(&mut over(&machine, IpvsSettings::default()), &fixture, &[]);
    let came = outcomes.take();
    let is_untouched = |outcome: &Outcome| matches!(outcome, Outcome::Local(to) if to.port == 30_080);
    assert!(came.iter().all(|one| is_answered(one) || is_refused(one) || is_untouched(one)), "{came:#?}");
    assert!(came.last().is_some_and(is_answered));
}

#[test]
fn the_last_endpoint_goes_and_the_first_comes_back() {
    let cluster = || Some(with_node_port(TrafficPolicy::Cluster));
    for (before, after) in [(&PODS[..1], &PODS[..0]), (&PODS[..0], &PODS[..1])] {
        let seen = seen(cluster(), before, cluster(), after);
        assert!(
            seen.iter().all(|one| is_answered(one) || is_refused(one)),
            "{before:?} to {after:?}: {seen:#?}"
        );
        // A reset, which every client believes.
        assert!(!seen.contains(&Outcome::Rejected(simulate::Rejection::PortUnreachable)), "{seen:#?}");
    }
}
