//! Connections through the forwarder: what outlives what, and what is refused.

use std::net::{IpAddr, Ipv6Addr};

use kernel::process::{Signal, send_signal};
use model::{Family, Protocol};
use sandbox::probe::{self, Hold, Pulse, UdpFlow};
use sandbox::{Outcome, address};
use test_support::{Carrier, Case, wait_until};

use super::super::places::at_cluster_ip;
use super::super::stage::{From, NODE, PROMPT, SOON, Stage, answer, list, slices};
use super::super::traffic::sent_again;
use super::{case, peers};

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("new connections wait for the next agent", waiting),
        case("an endpoint that refuses or is silent is passed over", passed_over),
        case("an open connection outlives the removal of its endpoint", drained),
        case("a client calls two services from one port", one_port),
        case("SIGTERM waits for open connections", stopped),
        case("a UDP flow moves without its record being forgotten", moved_datagrams),
        case("a UDP client learns that its endpoint refuses", refused_datagrams),
    ]
}

fn start(carrier: Carrier, protocol: Protocol, flags: &[&str]) -> Stage {
    let mut stage = Stage::of(carrier);
    stage.folder.put_service(&stage.service("web", 1, protocol));
    stage.put_endpoints("web", protocol, &["a"]);
    stage.start_with(&[&[PROMPT], flags].concat());
    stage
}

/// An address of the node, where nobody listens on the port of pods.
fn nobody() -> [IpAddr; 2] {
    [address::NODE_OUTER_V4.into(), address::NODE_OUTER_V6.into()]
}

fn waiting(carrier: Carrier) {
    let mut stage = start(carrier, Protocol::Tcp, &[]);
    for family in Family::BOTH {
        let to = at_cluster_ip(1, family);
        stage.agent().kill();
        let guest = stage.namespace(From::Guest).try_clone().unwrap();
        let before = sent_again(&guest);
        let client = std::thread::spawn(move || probe::tcp(&guest, None, to, answer()));
        // Nobody takes its first packet, and the kernel counts the second.
        let tries_again = || sent_again(stage.namespace(From::Guest)) > before;
        assert!(wait_until(SOON, tries_again), "{family}: the client does not try again");
        stage.agent().restart().unwrap_or_else(|why| panic!("{why}"));
        let outcome = client.join().unwrap();
        assert_eq!(outcome.by(), Some("a"), "{family}: {outcome:?}\n{}", stage.log());
    }
}

fn passed_over(carrier: Carrier) {
    let mut stage = start(carrier, Protocol::Tcp, &[]);
    let silent: [IpAddr; 2] =
        [[10, 244, 1, 250].into(), Ipv6Addr::new(0xfd00, 0x244, 1, 0, 0, 0, 0, 0xfa).into()];
    let pods = [nobody(), silent, stage.addresses("a")];
    stage.folder.put("slices-web", &list(slices("web", Protocol::Tcp, &pods, &[NODE; 3])));
    let failed = "pointsman_userspace_failed_dials_total{ip_family=\"IPv4\",protocol=\"tcp\"}";
    let to = at_cluster_ip(1, Family::V4);
    let is_counted = || {
        let outcome = stage.tcp(From::Guest, to);
        assert_eq!(outcome.by(), Some("a"), "{outcome:?}\n{}", stage.log());
        stage.metric(failed).is_some_and(|count| count >= 2.0)
    };
    assert!(wait_until(SOON, is_counted), "no failed attempt is counted");
}

fn drained(carrier: Carrier) {
    let stage = start(carrier, Protocol::Tcp, &[]);
    for family in Family::BOTH {
        let to = at_cluster_ip(1, family);
        stage.put_endpoints("web", Protocol::Tcp, &["a"]);
        stage.await_answer(Protocol::Tcp, From::Guest, to, "a");
        let mut hold = Hold::open(stage.namespace(From::Guest), None, to, answer()).unwrap();
        stage.put_endpoints("web", Protocol::Tcp, &["b"]);
        stage.await_answer(Protocol::Tcp, From::Guest, to, "b");
        assert!(matches!(hold.ping(answer()), Pulse::Alive(_)), "{family}\n{}", stage.log());
        assert_eq!(hold.by(), "a");
    }
}

/// Both connections are led to one listener, where the client's address and port alone cannot tell them apart.
fn one_port(carrier: Carrier) {
    let mut stage = Stage::of(carrier);
    for (number, name, pod) in [(1, "web", "a"), (2, "other", "b")] {
        stage.folder.put_service(&stage.service(name, number, Protocol::Tcp));
        stage.put_endpoints(name, Protocol::Tcp, &[pod]);
    }
    stage.start_with(&[PROMPT]);
    for family in Family::BOTH {
        let guest = stage.namespace(From::Guest);
        let mut open = [(1, "a"), (2, "b")].map(|(number, pod)| {
            let to = at_cluster_ip(number, family);
            let mut client = peers::connect_from(guest, 40_001, to)
                .unwrap_or_else(|error| panic!("{family}: {pod}: {error}\n{}", stage.log()));
            assert_eq!(peers::who(&mut client), pod, "{family}");
            client
        });
        assert_eq!(open.each_mut().map(peers::who), ["a", "b"], "{family}: both go on");
    }
}

fn stopped(carrier: Carrier) {
    let mut stage = start(carrier, Protocol::Tcp, &["--userspace-drain-timeout=60s"]);
    let to = at_cluster_ip(1, Family::V4);
    let mut hold = Hold::open(stage.namespace(From::Guest), None, to, answer()).unwrap();
    send_signal(stage.agent().process(), Signal::Terminate).unwrap();
    stage.await_said("Waiting for open connections to end");
    assert!(matches!(hold.ping(answer()), Pulse::Alive(_)), "{}", stage.log());
    assert_eq!(stage.who(Protocol::Tcp, From::Guest, to), "a", "new ones are let in meanwhile");
    drop(hold);
    stage.agent().stop().unwrap_or_else(|why| panic!("{why}"));
}

/// The record leads the client's answers back, and keeps another client from taking its place with the forwarder.
fn moved_datagrams(carrier: Carrier) {
    let mut stage = start(carrier, Protocol::Udp, &[]);
    let flows = Family::BOTH.map(|family| {
        let any = if family == Family::V4 { "0.0.0.0:0" } else { "[::]:0" };
        let to = at_cluster_ip(1, family);
        (family, UdpFlow::open(stage.namespace(From::Guest), any.parse().unwrap(), to).unwrap())
    });
    for (name, others) in [("b", "a"), ("a", "b")] {
        for (family, flow) in &flows {
            let is_answered = || flow.ask(answer()).by() == Some(others);
            assert!(wait_until(SOON, is_answered), "{family}: {others} does not answer\n{}", stage.log());
        }
        let before = Family::BOTH.map(|family| walks(&mut stage, family));
        stage.put_endpoints("web", Protocol::Udp, &[name]);
        for family in Family::BOTH {
            let is_walked = || walks(&mut stage, family) > before[family.index()];
            assert!(wait_until(SOON, is_walked), "{family}: nobody looks for stale flows\n{}", stage.log());
        }
        for (family, flow) in &flows {
            let is_answered = || flow.ask(answer()).by() == Some(name);
            assert!(wait_until(SOON, is_answered), "{family}: {name} does not answer\n{}", stage.log());
        }
    }
    for family in Family::BOTH {
        let name = format!("kubeproxy_conntrack_reconciler_deleted_entries_total{{ip_family=\"{family}\"}}");
        assert_eq!(stage.metric(&name), Some(0.0), "{name}\n{}", stage.log());
    }
}

/// How often the records were walked in search of stale ones.
fn walks(stage: &mut Stage, family: Family) -> f64 {
    let name = "kubeproxy_conntrack_reconciler_sync_duration_seconds_count";
    stage.metric(&format!("{name}{{ip_family=\"{family}\"}}")).unwrap_or_default()
}

fn refused_datagrams(carrier: Carrier) {
    let stage = start(carrier, Protocol::Udp, &[]);
    Family::BOTH.into_iter().for_each(|family| {
        assert_eq!(stage.who(Protocol::Udp, From::Guest, at_cluster_ip(1, family)), "a");
    });
    stage.put_endpoints_at("web", Protocol::Udp, nobody());
    for family in Family::BOTH {
        let to = at_cluster_ip(1, family);
        let is_refused = || matches!(stage.udp(From::Guest, to), Outcome::Refused);
        assert!(wait_until(SOON, is_refused), "{:?}\n{}", stage.udp(From::Guest, to), stage.log());
    }
}
