//! Flows that began before a change: those it concerns end or move, all others never notice.

use std::net::SocketAddr;
use std::time::Duration;

use conformance_support::site::{Caller, Expect, SOON};
use model::Family;
use sandbox::probe::{Hold, Pulse, UdpFlow};
use sandbox::{Namespace, Outcome};
use serde_json::json;
use test_support::world::{Range, address_in};
use test_support::{ANSWER, patient, wait_until};

use super::stage::{At, Stage, Web};

const SILENCE: Duration = Duration::from_millis(300);
/// Silence counts only if it lasts: a slow machine answers late.
const LASTING_SILENCE: Duration = Duration::from_secs(2);

/// UDP sockets that each ask one address repeatedly, as a resolver does: one per family.
struct Flows(Vec<(SocketAddr, UdpFlow)>);

impl Flows {
    fn open(web: Web<'_>, at: At) -> Flows {
        let from = namespace(web.stage, at.caller());
        let open = |family| {
            let to = web.address(at, family);
            let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            (to, UdpFlow::open(from, any.parse().unwrap(), to).unwrap())
        };
        Flows(Family::BOTH.map(open).into())
    }

    /// Wait until the pod answers, or until none does.
    fn expect(&self, pod: Option<&str>) {
        for (to, flow) in &self.0 {
            let mut last = Outcome::Closed;
            let came = wait_until(SOON, || {
                last = flow.ask(if pod.is_some() { patient(ANSWER) } else { SILENCE });
                if pod.is_none() && last.by().is_none() {
                    last = flow.ask(patient(LASTING_SILENCE));
                }
                last.by() == pod
            });
            assert!(came, "{to}: {last:?}, not {pod:?}");
        }
    }
}

fn namespace(stage: &Stage, caller: Caller) -> &Namespace {
    match caller {
        Caller::Pod(pod) => &stage.site.ground.sandbox.pod(pod).unwrap().namespace,
        Caller::Outside(_) => &stage.site.ground.sandbox.client,
    }
}

/// They follow the endpoints, through a time without any, and end with the service.
pub(crate) fn at_cluster_ip(stage: &Stage) {
    let web = stage.web("flow-cluster", 48).create().serve_by(&["a"]);
    web.expect(At::Cluster, Expect::By(&["a"]));
    let flows = Flows::open(web, At::Cluster);
    flows.expect(Some("a"));
    web.serve_by(&["b"]);
    flows.expect(Some("b"));
    web.serve_by(&[]);
    flows.expect(None);
    web.serve_by(&["a"]);
    flows.expect(Some("a"));
    web.delete();
    flows.expect(None);
    web.create();
    flows.expect(Some("a"));
}

/// They end with the way in that they came by, and find it again.
pub(crate) fn from_outside(stage: &Stage) {
    let web = stage.web("flow-outside", 49).create_open().serve_by(&["a"]);
    web.balance(Some("VIP"));
    let external = json!({"externalIPs": web.ips(Range::External)});
    web.patch_spec(external.clone());
    let ways = [At::External, At::Balancer, At::NodePort].map(|at| {
        web.expect(at, Expect::By(&["a"]));
        let flows = Flows::open(web, at);
        flows.expect(Some("a"));
        flows
    });
    let [by_external, by_balancer, by_node_port] = &ways;
    web.patch_spec(json!({"externalIPs": null}));
    by_external.expect(None);
    web.balance(None);
    by_balancer.expect(None);
    by_node_port.expect(Some("a"));
    web.serve_by(&[]);
    by_node_port.expect(None);
    web.serve_by(&["b"]);
    by_node_port.expect(Some("b"));
    web.patch_spec(json!({"type": "ClusterIP"}));
    by_node_port.expect(None);
    web.patch_spec(json!({"type": "LoadBalancer", "ports": web.open_ports()}));
    web.patch_spec(external);
    web.balance(Some("VIP"));
    ways.iter().for_each(|flows| flows.expect(Some("b")));
}

/// A connection outlives all changes that leave its endpoint alone.
pub(crate) fn held(stage: &Stage) {
    let web = stage.web("held", 50).create().serve_by(&["a"]);
    web.expect(At::Cluster, Expect::By(&["a"]));
    let guest = namespace(stage, At::Cluster.caller());
    let mut held = Family::BOTH.map(|family| {
        let to = SocketAddr::new(address_in(Range::Cluster, web.number, family), 80);
        Hold::open(guest, None, to, patient(ANSWER)).unwrap()
    });
    let mut expect_alive = |after: &str| {
        for hold in &mut held {
            let pulse = hold.ping(patient(ANSWER));
            assert!(matches!(pulse, Pulse::Alive(_)), "{pulse:?} after {after}");
        }
    };
    web.serve_by(&["a", "b"]);
    web.expect(At::Cluster, Expect::By(&["a", "b"]));
    expect_alive("another endpoint");
    web.patch_spec(json!({"type": "NodePort", "ports": web.open_ports()}));
    web.expect(At::NodePort, Expect::By(&["a", "b"]));
    expect_alive("another type");
    web.serve_in("1", &["a", "b"], |name, endpoint| match name {
        "a" => endpoint.conditions(false, true, true),
        _ => endpoint,
    });
    web.expect(At::Cluster, Expect::By(&["b"]));
    expect_alive("its endpoint began to terminate");
    web.patch_spec(json!({"sessionAffinity": "ClientIP"}));
    web.patch(json!({"metadata": {"annotations": {"note": "changed"}}}));
    web.expect(At::NodePort, Expect::By(&["b"]));
    expect_alive("affinity");
}
