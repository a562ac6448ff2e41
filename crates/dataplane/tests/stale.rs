//! Which flows the reconciler has forgotten after rewrites that failed.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{Fixture, MARK, ip, pod_cidrs, service};
use dataplane::Reconciler;
use dataplane::nftables::Nftables;
use model::{Family, FlowTarget, Protocol, RecordedFlow, Service, StaleSet};
use simulate::nft::Simulator;

const ENOMEM: i32 = 12;
const SERVICES: u8 = 6;

fn udp(last: u8) -> Service {
    let mut service = service(last);
    service.ports[0].protocol = Protocol::Udp;
    service
}

fn pod(number: u8) -> String {
    format!("10.244.1.{number}")
}

fn add(fixture: &mut Fixture, last: u8, pod_number: u8) {
    fixture.add(&format!("default/s{last}"), udp(last), &[(&pod(pod_number), "here")]);
}

fn flow(last: u8, pod_number: u8) -> RecordedFlow {
    RecordedFlow {
        protocol: Protocol::Udp,
        destination: ip(&format!("10.96.0.{last}")),
        port: 80,
        target: FlowTarget::Endpoint(ip(&pod(pod_number)), 8080),
        half_open: false,
    }
}

/// A kernel that refuses for hours, while services change: what waits is bounded, and nothing of it is lost.
#[test]
fn rewrites_that_fail_again_and_again_leave_each_destination_once() {
    let mut reconciler = Reconciler::new(Nftables::new(Simulator::new(), &pod_cidrs(), MARK));
    let mut fixture = Fixture::default();
    (1..=SERVICES).for_each(|last| add(&mut fixture, last, 200));
    reconciler.sync(Family::V4, &[], &fixture).unwrap();
    reconciler.distrust(Family::V4);
    for round in 0..1000_u32 {
        // Every service gets another endpoint each time; one of them is away now and then.
        let pod_number = u8::try_from(round % 100).unwrap();
        (1..=SERVICES).for_each(|last| add(&mut fixture, last, pod_number));
        if round % 3 == 0 {
            fixture.services.remove("default/s1");
        }
        reconciler.backend().transport().fail_next(ENOMEM);
        reconciler.sync(Family::V4, &[], &fixture).unwrap_err();
    }
    fixture.services.remove("default/s2");
    add(&mut fixture, 1, 7);
    let synced = reconciler.sync(Family::V4, &[], &fixture).unwrap();
    assert!(synced.stale.len() <= 2 * usize::from(SERVICES), "{} wait", synced.stale.len());
    let set: StaleSet = synced.stale.into_iter().collect();
    let is_stale = |flow| set.is_stale(&flow, |_| false);
    for last in 1..=SERVICES {
        assert!(is_stale(flow(last, 200)), "s{last}: a previous endpoint");
    }
    assert!(!is_stale(flow(1, 7)), "it is live");
    assert!(!is_stale(flow(5, 99)), "it is live");
    assert!(is_stale(flow(2, 99)), "its service is gone");
}
