//! Beside a firewall that drops by default, and packets that conntrack knows nothing of.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::time::Duration;

use dataplane::iptables::{INVALID_COUNTER, LOCALHOST_COUNTER};
use kernel::conntrack::{Conntrack, Filter};
use kernel::{nfacct, sysctl};
use model::{Family, Protocol};
use sandbox::Outcome;
use sandbox::probe::{self, Hold, Pulse};
use serde_json::json;
use test_support::node_agent::get;
use test_support::{Carrier, Case, wait_until};

use super::super::places::{at_cluster_ip, at_node_port, external_ip};
use super::super::stage::{From, POD_PORT, SOON, Stage, answer};
use super::both;

const NODE_PORT: u16 = 30080;
const HEALTH_PORT: u16 = 32100;
const COUNTER: &str = "kubeproxy_iptables_ct_state_invalid_dropped_packets_total";

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = both("packets unknown to conntrack are dropped and counted", invalid);
    cases.extend(both("removed counters are created again", counters_removed));
    cases.extend(both("packets unknown to conntrack pass where it is to be liberal", liberal));
    cases.extend(both("node ports and health checks work beside policies of DROP", policies));
    cases
}

/// A connection to a pod, past all services, of which the node's conntrack has just forgotten everything.
fn forgotten(stage: &Stage, family: Family) -> Hold {
    let to = SocketAddr::new(stage.address("a", family), POD_PORT);
    let hold = Hold::open(&stage.sandbox.client, None, to, answer()).unwrap();
    stage.sandbox.node.run(|| {
        // A packet out of the blue is no new connection.
        sysctl::write("net/netfilter/nf_conntrack_tcp_loose", 0).unwrap();
        let mut flows = Vec::new();
        let all = Conntrack::dump(&Filter::default(), |flow| {
            flows.push(*flow);
            ControlFlow::Continue(())
        });
        all.unwrap();
        let mut conntrack = Conntrack::open().unwrap();
        for flow in &flows {
            conntrack.delete(flow).unwrap();
        }
    });
    hold
}

fn invalid(carrier: Carrier) {
    let mut stage = Stage::with_web(carrier, &["a"], &[]);
    assert_eq!(stage.metric(COUNTER), Some(0.0), "{}", stage.log());
    let mut counted = 0.0;
    for family in Family::BOTH {
        let pulse = forgotten(&stage, family).ping(Duration::from_millis(700));
        assert_eq!(pulse, Pulse::Silent, "{family}");
        let now = stage.metric(COUNTER).unwrap();
        assert!(now > counted, "{family}: {now} counted, {counted} before");
        counted = now;
    }
    stage.assert_answers(&[1], "afterwards");
}

/// Nothing counts in them while the rules are gone; then they can be removed.
fn counters_removed(carrier: Carrier) {
    let mut stage = Stage::with_web(carrier, &["a"], &[]);
    let whole = Family::BOTH.map(|family| stage.tables(family).comparable());
    let node = &stage.sandbox.node;
    let is_removed = wait_until(SOON, || {
        for (family, table) in
            Family::BOTH.into_iter().flat_map(|family| [(family, "nat"), (family, "filter")])
        {
            stage.run(family, &format!("-t {table} -F"));
        }
        node.run(|| [INVALID_COUNTER, LOCALHOST_COUNTER].map(nfacct::remove)).iter().all(Result::is_ok)
    });
    assert!(is_removed, "always in use");
    let is_whole = |family: Family| stage.tables(family).comparable() == whole[family.index()];
    assert!(wait_until(SOON, || Family::BOTH.into_iter().all(is_whole)), "{}", stage.log());
    assert_eq!(stage.metric(COUNTER), Some(0.0), "{}", stage.log());
    stage.assert_answers(&[1], "afterwards");
}

fn liberal(carrier: Carrier) {
    let mut stage = Stage::with_web(carrier, &["a"], &["--conntrack-tcp-be-liberal"]);
    for family in Family::BOTH {
        let pulse = forgotten(&stage, family).ping(answer());
        assert!(matches!(pulse, Pulse::Alive(_)), "{family}: {pulse:?}");
    }
    assert!(stage.metric(COUNTER).is_none_or(|counted| counted == 0.0));
}

fn policies(carrier: Carrier) {
    let mut stage = Stage::of(carrier);
    for family in Family::BOTH {
        stage.run(family, "-P INPUT DROP");
        stage.run(family, "-P FORWARD DROP");
        // The agent's own servers, and what keeps neighbours known.
        stage.run(family, "-A INPUT -i lo -j ACCEPT");
    }
    stage.run(Family::V6, "-A INPUT -p icmpv6 -j ACCEPT");
    let ports = json!([{"name": "main", "protocol": "TCP", "port": 80, "nodePort": NODE_PORT}]);
    let far = stage.service("far", 1, Protocol::Tcp).with("type", "NodePort").with("ports", ports);
    stage.folder.put_service(&far);
    stage.put_endpoints("far", Protocol::Tcp, &["a", "c"]);
    let near = stage
        .service("near", 2, Protocol::Tcp)
        .with("type", "LoadBalancer")
        .with("externalTrafficPolicy", "Local")
        .with("healthCheckNodePort", HEALTH_PORT)
        .balancer_ip(external_ip(Family::V4), "VIP");
    stage.folder.put_service(&near);
    stage.put_endpoints("near", Protocol::Tcp, &["a"]);
    stage.start_with(&[]);
    for family in Family::BOTH {
        for _ in 0..6 {
            let outcome = stage.tcp(From::Outside, at_node_port(NODE_PORT, family));
            assert!(outcome.by().is_some(), "{family}: {outcome:?}");
        }
        let health = at_node_port(HEALTH_PORT, family);
        let answer = stage.sandbox.client.run(|| get(health, "/"));
        assert!(answer.as_deref().is_some_and(|text| text.contains("200 OK")), "{family}: {answer:?}");
        // Nothing else is let in: this is the agent's own probe server.
        let closed =
            probe::tcp(&stage.sandbox.client, None, at_node_port(10256, family), Duration::from_millis(300));
        assert_eq!(closed, Outcome::TimedOut, "{family}");
        // Nor through: who is not masqueraded is the network plugin's care.
        let dropped = probe::tcp(
            stage.namespace(From::Guest),
            None,
            at_cluster_ip(2, family),
            Duration::from_millis(300),
        );
        assert_eq!(dropped, Outcome::TimedOut, "{family}");
    }
    stage.agent().stop().unwrap();
}
