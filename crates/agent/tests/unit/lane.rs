//! What a family writes when, and what is said about it.

use super::*;
use config::FeatureGates;
use dataplane::nftables::Nftables;
use model::{
    Endpoint, EndpointSlice, LocalDetector, NodePlan, NodeView, Planned, Protocol, Service, ServicePort,
    Settings, SlicePort, TrafficPolicy,
};
use simulate::nft::Simulator;
use telemetry::logging::capture::heard;
use telemetry::metrics::Metrics;

struct Nothing;

impl Planner for Nothing {
    fn plan(&self, _: &ServiceKey, _: Family) -> Option<Planned> {
        None
    }
    fn weight(&self, _: &ServiceKey) -> usize {
        0
    }
    fn services(&self) -> Vec<ServiceKey> {
        Vec::new()
    }
    fn node(&self, _: Family) -> NodePlan {
        NodePlan::default()
    }
}

#[test]
fn a_refused_transaction_is_told_in_full_once() {
    const ENOMEM: i32 = 12;
    let mut reconciler = Reconciler::new(Nftables::new(Simulator::new(), &LocalDetector::None, 1 << 14));
    let metrics = Metrics::of_mode("nftables", &FeatureGates::default());
    let of_family = metrics.sync().of(Family::V4).clone();
    let mut lane = Lane::new(Family::V4, Duration::ZERO, of_family, Recorder::nowhere());
    lane.mark(&["default/web".into()], false);
    let (_, log) = heard(&["v=2"], || {
        for _ in 0..3 {
            reconciler.backend().transport().fail_next(ENOMEM);
            assert!(lane.sync(&mut reconciler, &Nothing).is_none());
        }
        assert!(lane.sync(&mut reconciler, &Nothing).is_some());
    });
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 2, "{log}");
    for part in [
        "\"Failed to write rules; the previous rules remain active, retrying with a full rewrite\"",
        "family=\"IPv4\" writing=\"everything\" changed=1 services=\"default/web\"",
        "the transaction on table \\\"ip kube-proxy\\\": the kernel is short of memory (ENOMEM)",
    ] {
        assert!(lines[0].contains(part), "{part} is missing in:\n{log}");
    }
    assert!(lines[1].contains("\"Rules are in place again\" family=\"IPv4\" failures=3"), "{log}");
}

/// A service of many ports, and an ordinary one; each with one endpoint whose last number is given.
struct Two {
    ports: u16,
    large: u8,
    small: u8,
}

impl Planner for Two {
    fn plan(&self, service: &ServiceKey, family: Family) -> Option<Planned> {
        let (ports, cluster_ip, last) = match &**service {
            "default/large" => (self.ports, [10, 96, 0, 1], self.large),
            _ => (1, [10, 96, 0, 2], self.small),
        };
        let port = |number| ServicePort {
            name: format!("p{number}").into(),
            protocol: Protocol::Tcp,
            port: number,
            node_port: None,
        };
        let service = Service {
            cluster_ips: [cluster_ip.into()].into(),
            ports: (1..=ports).map(port).collect(),
            external_ips: [].into(),
            load_balancer_ips: [].into(),
            source_ranges: [].into(),
            affinity_seconds: None,
            internal_policy: TrafficPolicy::Cluster,
            external_policy: TrafficPolicy::Cluster,
            health_check_node_port: None,
            created: 0,
        };
        let slice_port =
            |number| SlicePort { name: format!("p{number}").into(), protocol: Protocol::Tcp, port: 80 };
        let offered: Vec<SlicePort> = (1..=ports).map(slice_port).collect();
        let endpoint = Endpoint {
            ip: [10, 244, 0, last].into(),
            ready: true,
            serving: true,
            terminating: false,
            node: None,
            hints: None,
        };
        let slice = EndpointSlice { ports: &offered, endpoints: vec![endpoint] };
        let plan = model::plan(&service, &[slice], &NodeView::default(), &Settings::default(), family);
        Some(Planned { plan, created: 0 })
    }
    fn services(&self) -> Vec<ServiceKey> {
        vec!["default/large".into(), "default/small".into()]
    }
    fn node(&self, _: Family) -> NodePlan {
        NodePlan::default()
    }
}

#[test]
fn a_large_service_lets_others_pass_and_has_a_pace_of_its_own() {
    let mut reconciler = Reconciler::new(Nftables::new(Simulator::new(), &LocalDetector::None, 1 << 14));
    let metrics = Metrics::of_mode("nftables", &FeatureGates::default());
    let of_family = metrics.sync().of(Family::V4).clone();
    let mut lane = Lane::new(Family::V4, Duration::ZERO, of_family, Recorder::nowhere());
    let mut two = Two { ports: 5_000, large: 1, small: 1 };
    assert!(lane.sync(&mut reconciler, &two).is_some_and(|synced| synced.full));
    let (large, small) = (ServiceKey::from("default/large"), ServiceKey::from("default/small"));
    (two.large, two.small) = (2, 2);
    lane.mark(&[large.clone(), small.clone()], false);
    let first = lane.sync(&mut reconciler, &two).unwrap();
    assert_eq!((first.services, lane.is_behind()), (1, true), "the small one first, and alone");
    let mut pieces = 0;
    let mut small_waits = 0;
    while lane.is_behind() {
        if pieces % 3 == 1 {
            two.small += 1;
            lane.mark(std::slice::from_ref(&small), false);
            small_waits += 1;
            let synced = lane.sync(&mut reconciler, &two).unwrap();
            assert_eq!(
                (synced.services, synced.committed.bytes < 2_000),
                (1, true),
                "nothing of the large one"
            );
        }
        let piece = lane.sync(&mut reconciler, &two).unwrap();
        assert!(piece.committed.bytes < 1_000_000, "{} bytes in a piece", piece.committed.bytes);
        pieces += 1;
        assert!(pieces < 100, "it never ends");
    }
    assert!(pieces > 3 && small_waits > 0, "{pieces} pieces");
    let mut fresh = Reconciler::new(Nftables::new(Simulator::new(), &LocalDetector::None, 1 << 14));
    fresh.sync(Family::V4, &[], &two).unwrap();
    assert_eq!(reconciler.programmed(Family::V4), fresh.programmed(Family::V4));
}

#[test]
fn a_refused_piece_leaves_the_service_as_it_was_and_the_others_alone() {
    const ENOMEM: i32 = 12;
    let mut reconciler = Reconciler::new(Nftables::new(Simulator::new(), &LocalDetector::None, 1 << 14));
    let metrics = Metrics::of_mode("nftables", &FeatureGates::default());
    let of_family = metrics.sync().of(Family::V4).clone();
    let mut lane = Lane::new(Family::V4, Duration::ZERO, of_family, Recorder::nowhere());
    let mut two = Two { ports: 3_000, large: 1, small: 1 };
    assert!(lane.sync(&mut reconciler, &two).is_some());
    two.large = 2;
    lane.mark(&["default/large".into()], false);
    reconciler.backend().transport().fail_next(ENOMEM);
    assert!(lane.sync(&mut reconciler, &two).is_none(), "refused");
    // The rules are written with the large one as it was; then it is tried once more.
    let rewritten = lane.sync(&mut reconciler, &two).unwrap();
    assert!(rewritten.full && lane.is_behind());
    let deadline = Instant::now() + Duration::from_secs(60);
    while lane.is_behind() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(lane.wait(&reconciler, Instant::now()));
        lane.sync(&mut reconciler, &two);
    }
    let mut fresh = Reconciler::new(Nftables::new(Simulator::new(), &LocalDetector::None, 1 << 14));
    fresh.sync(Family::V4, &[], &two).unwrap();
    assert_eq!(reconciler.programmed(Family::V4), fresh.programmed(Family::V4));
}

/// Services that weigh much, each for itself not enough to be written apart.
struct Heavy;

impl Planner for Heavy {
    fn plan(&self, _: &ServiceKey, _: Family) -> Option<Planned> {
        None
    }
    fn weight(&self, _: &ServiceKey) -> usize {
        1_000
    }
    fn services(&self) -> Vec<ServiceKey> {
        Vec::new()
    }
    fn node(&self, _: Family) -> NodePlan {
        NodePlan::default()
    }
}

#[test]
fn what_is_written_together_is_bounded_by_weight_and_late_ones_are_not_taken_for_done() {
    let mut reconciler = Reconciler::new(Nftables::new(Simulator::new(), &LocalDetector::None, 1 << 14));
    let metrics = Metrics::of_mode("nftables", &FeatureGates::default());
    let of_family = metrics.sync().of(Family::V4).clone();
    let mut lane = Lane::new(Family::V4, Duration::ZERO, of_family, Recorder::nowhere());
    assert!(lane.sync(&mut reconciler, &Heavy).is_some_and(|synced| synced.full));
    let services: Vec<ServiceKey> = (0..10).map(|number| format!("default/s{number}").into()).collect();
    let trigger = |service: &ServiceKey| Trigger { service: service.clone(), family: Family::V4, millis: 1 };
    lane.mark(&services, false);
    lane.note_triggers(&services.iter().map(trigger).collect::<Vec<_>>(), 0);
    for waiting in [6, 2, 0] {
        assert!(lane.sync(&mut reconciler, &Heavy).is_some());
        assert_eq!(services.iter().filter(|service| lane.waits_for(service)).count(), waiting);
        assert_eq!(lane.triggers.len(), waiting, "each counts when its rules are written");
    }
    assert!(!lane.has_work(&reconciler));
}

#[test]
fn a_piece_waits_for_ordinary_changes_that_are_due_soon_but_not_for_ever() {
    let metrics = Metrics::of_mode("nftables", &FeatureGates::default());
    let of_family = metrics.sync().of(Family::V4).clone();
    let mut lane = Lane::new(Family::V4, Duration::ZERO, of_family, Recorder::nowhere());
    let (ended, millis) = (Instant::now(), Duration::from_millis);
    assert_eq!(lane.courtesy(millis(1), ended), Duration::ZERO, "nobody knows what a piece takes");
    (lane.piece_took, lane.piece_ended) = (millis(30), Some(ended));
    assert_eq!(lane.courtesy(millis(20), ended), millis(20), "it would still be under way");
    assert_eq!(lane.courtesy(millis(30), ended), Duration::ZERO, "it is done by then");
    assert_eq!(lane.courtesy(millis(20), ended + millis(190)), millis(10));
    assert_eq!(lane.courtesy(millis(20), ended + LONGEST_COURTESY), Duration::ZERO, "it waited long enough");
}

#[test]
fn services_that_wait_are_written_also_while_others_change_all_the_time() {
    let mut reconciler = Reconciler::new(Nftables::new(Simulator::new(), &LocalDetector::None, 1 << 14));
    let metrics = Metrics::of_mode("nftables", &FeatureGates::default());
    let of_family = metrics.sync().of(Family::V4).clone();
    let mut lane = Lane::new(Family::V4, Duration::ZERO, of_family, Recorder::nowhere());
    assert!(lane.sync(&mut reconciler, &Heavy).is_some_and(|synced| synced.full));
    let busy: Vec<ServiceKey> = (0..20).map(|number| format!("loud/s{number}").into()).collect();
    for number in 0..3 {
        lane.older.push(format!("quiet/s{number}").into());
    }
    for turn in 0..3 {
        lane.mark(&busy, false);
        assert!(lane.sync(&mut reconciler, &Heavy).is_some());
        let waits = |number| lane.waits_for(&format!("quiet/s{number}").into());
        assert!(!waits(turn) && (turn + 1..3).all(waits), "one each time, in order: {turn}");
        let busy = busy.iter().filter(|service| !lane.waits_for(service)).count();
        assert_eq!(busy, 3, "the rest is for what is new");
    }
}

#[test]
fn a_service_that_became_large_while_it_waited_is_not_written_with_the_small_ones() {
    let mut reconciler = Reconciler::new(Nftables::new(Simulator::new(), &LocalDetector::None, 1 << 14));
    let metrics = Metrics::of_mode("nftables", &FeatureGates::default());
    let of_family = metrics.sync().of(Family::V4).clone();
    let mut lane = Lane::new(Family::V4, Duration::ZERO, of_family, Recorder::nowhere());
    let mut two = Two { ports: 1, large: 1, small: 1 };
    assert!(lane.sync(&mut reconciler, &two).is_some());
    let large = ServiceKey::from("default/large");
    lane.older.push(large.clone());
    two.ports = 3_000;
    lane.mark(std::slice::from_ref(&large), false);
    lane.set_large_aside(&reconciler, &two);
    assert!(lane.large.contains(&large) && lane.older.is_empty() && lane.services.is_empty());
}
