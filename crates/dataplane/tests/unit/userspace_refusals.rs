//! Unit tests of `userspace/refusals`.

use std::sync::Arc;

use model::{PortPlan, Protocol};

use super::*;

fn sctp() -> ServicePlan {
    let port = PortPlan {
        name: "".into(),
        protocol: Protocol::Sctp,
        affinity_seconds: None,
        cluster_pool: Box::default(),
        local_pool: Box::default(),
        destinations: Box::default(),
    };
    let ports = vec![Arc::new(port)].into();
    ServicePlan { cluster_ip: None, health_check_port: None, ports, excess: Default::default() }
}

#[test]
fn services_that_a_rewrite_leaves_out_are_forgotten() {
    let mut refusals = Refusals::default();
    let count = |news: &[Shortfall]| {
        let over = news.iter().filter(|shortfall| shortfall.is_over).count();
        (news.len() - over, over)
    };
    for turn in 0..3 {
        let plans: HashMap<ServiceKey, ServicePlan> =
            (0..1_000).map(|number| (format!("ns-{turn}/{number}").into(), sctp())).collect();
        refusals.replace(&plans);
        let gone = if turn == 0 { 0 } else { 1_000 };
        assert_eq!(count(&refusals.take()), (1_000, gone), "{turn}");
        refusals.replace(&plans);
        assert_eq!(refusals.take(), [], "they are known");
    }
}

#[test]
fn of_what_changed_often_only_the_last_counts() {
    let (mut refusals, service) = (Refusals::default(), ServiceKey::from("default/web"));
    for _ in 0..100 {
        refusals.note(&service, Some(&sctp()));
        refusals.note(&service, None);
    }
    assert_eq!(refusals.take(), [Shortfall { service, note: NO_SCTP, is_over: true }]);
}
