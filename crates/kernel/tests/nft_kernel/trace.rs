//! Packets that are followed, and flows that are told, by the running kernel.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use kernel::conntrack::Flow;
use kernel::netns::privileged_test;
use kernel::nft::*;

use crate::space::{Space, batch, in_namespace};

const UDP: u8 = 17;
const SECONDS: Duration = Duration::from_secs(30);

fn wanted(port: u16) -> Wanted {
    Wanted { to: [127, 0, 0, 1].into(), port: Some(port), protocol: Some(UDP), from: None, per_second: 100 }
}

/// Drops datagrams to this port, and counts them by name.
fn dropping(port: u16) -> Batch {
    let mut batch = batch();
    batch.add_table("");
    batch.add_counter("dropped");
    let hook = Hook { kind: HookKind::Filter, number: 1, priority: 0 };
    batch.add_chain(&Chain { name: "input", hook: Some(hook) });
    let expressions = vec![
        Expression::Payload { base: Base::Transport, offset: 2, length: 2, to: Reg(1) },
        Expression::Compare { op: CompareOp::Equal, reg: Reg(1), value: port.to_be_bytes().to_vec() },
        Expression::Count("dropped"),
        Expression::Verdict(VerdictCode::Drop),
    ];
    batch.add_rule(&Rule { chain: "input", expressions });
    batch
}

#[derive(Debug, Default)]
struct Told {
    /// Table, chain, rule and whether it drops.
    steps: Vec<(String, String, Option<u64>, bool)>,
    entered: Vec<Packet>,
    flows: Vec<Flow>,
}

fn send(space: &Space, port: u16) -> u16 {
    space.namespace.run(|| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"x", ("127.0.0.1", port)).unwrap();
        socket.local_addr().unwrap().port()
    })
}

/// What is told until it is enough.
fn listen(tracer: &mut Tracer, is_enough: impl Fn(&Told) -> bool) -> Told {
    let (mut told, deadline) = (Told::default(), Instant::now() + SECONDS);
    while !is_enough(&told) {
        let own = tracer.table().to_owned();
        let wait = tracer.wait(deadline, &mut |heard| match heard {
            Heard::Step(step) => {
                told.entered.extend(step.packet.filter(|_| step.table == own));
                told.steps.push((step.table.to_owned(), step.chain.to_owned(), step.rule, step.is_dropped));
            }
            Heard::Flow(flow) => told.flows.push(flow),
        });
        assert_eq!(wait.unwrap(), Wait::Heard, "{told:?}");
    }
    told
}

#[test]
fn a_dropped_packet_is_followed_to_the_rule_that_drops_it() {
    privileged_test(|| {
        in_namespace(|mut space| {
            space.commit(&dropping(9));
            let mut tracer = space.namespace.run(|| Tracer::open(&wanted(9))).unwrap();
            send(&space, 10);
            let from = send(&space, 9);
            let told = listen(&mut tracer, |told| told.steps.iter().any(|(_, _, _, is_dropped)| *is_dropped));
            let entered = told.entered.first().unwrap();
            assert_eq!((entered.protocol, entered.sport, entered.dport), (UDP, from, 9));
            let (table, chain, rule, _) = told.steps.last().unwrap();
            assert_eq!((table.as_str(), chain.as_str()), ("test", "input"));
            let rules = tracer.connection().rules(TableFamily::Ip, "test").unwrap();
            assert_eq!(rules, [(rule.unwrap(), Some("dropped".to_owned()))]);
            // The loopback interface: it has gone out before it comes in.
            assert_eq!(told.flows.len(), 1, "{told:?}");
        })
    })
}

#[test]
fn a_connection_that_gets_through_is_told_once_and_others_are_not() {
    privileged_test(|| {
        in_namespace(|space| {
            let mut tracer = space.namespace.run(|| Tracer::open(&wanted(9))).unwrap();
            for port in [8, 10] {
                send(&space, port);
            }
            let from = send(&space, 9);
            let told = listen(&mut tracer, |told| !told.flows.is_empty());
            let ports: Vec<_> =
                told.flows.iter().map(|flow| (flow.original.sport, flow.original.dport)).collect();
            assert_eq!(ports, [(from, 9)]);
            let soon = Instant::now() + Duration::from_millis(100);
            let mut others = 0;
            while tracer
                .wait(soon, &mut |heard| others += usize::from(matches!(heard, Heard::Flow(_))))
                .unwrap()
                != Wait::Elapsed
            {}
            assert_eq!(others, 0);
        })
    })
}

#[test]
fn the_table_belongs_to_the_tracer_and_goes_with_it() {
    privileged_test(|| {
        in_namespace(|mut space| {
            for to in ["127.0.0.1", "::1"] {
                let to: std::net::IpAddr = to.parse().unwrap();
                let family = if to.is_ipv4() { TableFamily::Ip } else { TableFamily::Ip6 };
                let any = Wanted { to, port: None, protocol: None, from: Some(to), per_second: 1 };
                let tracer = space.namespace.run(|| Tracer::open(&any)).unwrap();
                let mut tables = || space.connection.tables(family).unwrap();
                let there = tables();
                assert_eq!(there.len(), 1);
                assert_eq!(there[0].name, tracer.table());
                let mut removal = Batch::new(family, tracer.table());
                removal.delete_table();
                space.connection.commit(&removal).unwrap_err();
                drop(tracer);
                assert!(space.connection.tables(family).unwrap().is_empty());
            }
        })
    })
}

#[test]
fn a_stopper_ends_the_waiting() {
    privileged_test(|| {
        in_namespace(|space| {
            let mut tracer = space.namespace.run(|| Tracer::open(&wanted(9))).unwrap();
            tracer.stopper().stop();
            assert_eq!(tracer.wait(Instant::now() + SECONDS, &mut |_| {}).unwrap(), Wait::Stopped);
        })
    })
}
