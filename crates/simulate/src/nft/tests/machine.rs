//! What single rules do: verdicts, lookups, writes by packets, in both families.

use std::net::IpAddr;

use kernel::nft::*;

use crate::nft::Simulator;
use crate::{HookPoint, Host, Journey, Origin, Outcome, Packet, Place, Protocol, Xorshift, walk};

const NODE: &str = "192.0.2.1";
const CLIENT: &str = "192.0.2.9";
const SERVER: &str = "198.51.100.7";
const ADDRESS: u32 = 7;
const DADDR: Expression<'static> =
    Expression::Payload { base: Base::Network, offset: 16, length: 4, to: Reg(1) };
const ACCEPT: Expression<'static> = Expression::Verdict(VerdictCode::Accept);
const DROP: Expression<'static> = Expression::Verdict(VerdictCode::Drop);
const RETURN: Expression<'static> = Expression::Verdict(VerdictCode::Return);

fn jump(chain: &'static str) -> Expression<'static> {
    Expression::Verdict(VerdictCode::Jump(chain))
}

fn goto(chain: &'static str) -> Expression<'static> {
    Expression::Verdict(VerdictCode::Goto(chain))
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn bytes(text: &str) -> Vec<u8> {
    super::super::header::octets(ip(text))
}

fn base(kind: HookKind, number: u32, priority: i32) -> Option<Hook> {
    Some(Hook { kind, number, priority })
}

/// A table with a chain on forward, "base", and three others.
struct Bench {
    batch: Batch,
}

impl Bench {
    fn new() -> Bench {
        let mut batch = Batch::new(TableFamily::Ip, "t");
        batch.add_table("");
        batch.add_chain(&Chain { name: "base", hook: base(HookKind::Filter, 2, 0) });
        for name in ["a", "b", "c"] {
            batch.add_chain(&Chain { name, hook: None });
        }
        Bench { batch }
    }

    fn set(mut self, name: &str, data: Option<(u32, u32)>, flags: SetFlags, size: u32) -> Bench {
        let set = Set { name, key_type: ADDRESS, key_length: 4, data, flags, size, user_data: &[] };
        self.batch.add_set(&set);
        self
    }

    fn rule(mut self, chain: &str, expressions: &[Expression<'_>]) -> Bench {
        self.batch.add_rule(&Rule { chain, expressions: expressions.to_vec() });
        self
    }

    fn build(self) -> Simulator {
        let mut simulator = Simulator::new();
        simulator.commit_bytes(self.batch.bytes()).unwrap();
        simulator
    }

    fn passes(self) -> bool {
        passes(&mut self.build())
    }
}

fn packet() -> Packet {
    Packet {
        protocol: Protocol::Tcp,
        source: ip(CLIENT),
        source_port: 5000,
        destination: ip(SERVER),
        destination_port: 80,
        mark: 0,
        origin: Origin::Interface("eth0".to_owned()),
    }
}

fn send(simulator: &mut Simulator, packet: Packet) -> Journey {
    walk(simulator, &Host::new([ip(NODE), ip("2001:db8::1")]), packet, &mut |_| 0)
}

fn passes(simulator: &mut Simulator) -> bool {
    matches!(send(simulator, packet()).outcome, Outcome::Delivered(_))
}

#[test]
fn a_jump_comes_back_and_a_goto_does_not() {
    assert!(!Bench::new().rule("base", &[jump("a")]).rule("base", &[DROP]).passes());
    assert!(Bench::new().rule("base", &[goto("a")]).rule("base", &[DROP]).passes());
}

#[test]
fn the_end_of_a_chain_gone_to_leads_to_the_last_jump() {
    let bench = || Bench::new().rule("base", &[jump("a")]).rule("a", &[goto("b")]).rule("a", &[DROP]);
    assert!(bench().passes(), "the rest of a is skipped");
    assert!(!bench().rule("base", &[DROP]).passes(), "the rest of base is not");
    assert!(!bench().rule("b", &[RETURN]).rule("b", &[ACCEPT]).rule("base", &[DROP]).passes());
}

#[test]
fn return_in_a_base_chain_is_its_policy() {
    assert!(Bench::new().rule("base", &[RETURN]).rule("base", &[DROP]).passes());
}

#[test]
fn accept_ends_one_base_chain_only() {
    let mut simulator = Bench::new().rule("base", &[ACCEPT]).build();
    let mut other = Batch::new(TableFamily::Ip, "other");
    other.add_table("");
    other.add_chain(&Chain { name: "late", hook: base(HookKind::Filter, 2, 10) });
    other.add_rule(&Rule { chain: "late", expressions: vec![DROP] });
    simulator.commit_bytes(other.bytes()).unwrap();
    let journey = send(&mut simulator, packet());
    assert_eq!(journey.ended, Place { hook: HookPoint::Forward, chain: Some("late".to_owned()) });
}

#[test]
fn a_missed_lookup_only_ends_the_rule() {
    let find = |invert| Expression::Lookup { set: "s", key: Reg(1), to: None, invert };
    let plain = SetFlags::default();
    let bench = || Bench::new().set("s", None, plain, 0);
    assert!(bench().rule("base", &[DADDR, find(false), DROP]).passes());
    assert!(!bench().rule("base", &[DADDR, find(false), ACCEPT]).rule("base", &[DROP]).passes());
    assert!(!bench().rule("base", &[DADDR, find(true), DROP]).passes());
    let verdict = Expression::Lookup { set: "v", key: Reg(1), to: Some(Reg(0)), invert: false };
    let mapped = bench().set("v", Some((VERDICT, 0)), plain, 0).rule("base", &[DADDR, verdict]);
    let mut simulator = mapped.rule("base", &[DROP]).build();
    assert!(!passes(&mut simulator));
    let mut batch = Batch::new(TableFamily::Ip, "t");
    batch.add_element("v", &bytes(SERVER), ElementData::Goto("a"), None);
    simulator.commit_bytes(batch.bytes()).unwrap();
    assert!(passes(&mut simulator), "now base is left for a");
}

#[test]
fn intervals_hold_their_start_but_not_their_end() {
    let find = Expression::Lookup { set: "s", key: Reg(1), to: None, invert: false };
    let flags = SetFlags { interval: true, ..SetFlags::default() };
    let passes = |start: &str, end: Option<&str>| {
        let mut bench = Bench::new().set("s", None, flags, 0).rule("base", &[DADDR, find.clone(), DROP]);
        let end = end.map(bytes);
        bench.batch.add_interval("s", &bytes(start), end.as_deref());
        bench.passes()
    };
    assert!(!passes(SERVER, Some("198.51.100.8")));
    assert!(passes("198.51.100.0", Some(SERVER)));
    assert!(!passes("198.51.100.0", None));
    assert!(passes("198.51.100.8", None));
}

#[test]
fn an_interface_can_be_matched_by_its_beginning() {
    let starts = |text: &str| {
        let name = Expression::Meta { key: MetaKey::IifName, to: Reg(1) };
        let value = text.as_bytes().to_vec();
        let same = Expression::Compare { op: CompareOp::Equal, reg: Reg(1), value };
        !Bench::new().rule("base", &[name, same, DROP]).passes()
    };
    assert!(starts("eth"));
    assert!(starts("eth0\0\0\0\0\0\0\0\0\0\0\0\0"));
    assert!(!starts("eth\0"));
    assert!(!starts("pod"));
}

fn pin(op: DynsetOp, data: u32, timeout_ms: Option<u64>) -> Expression<'static> {
    Expression::Dynset { set: "pins", op, key: Reg(1), data: Some(Reg(data)), timeout_ms }
}

const SPORT: Expression<'static> =
    Expression::Payload { base: Base::Transport, offset: 0, length: 2, to: Reg(2) };

fn pins(simulator: &mut Simulator) -> Vec<(Vec<u8>, Option<u64>)> {
    let mut found = Vec::new();
    let mut note = |one: DumpedElement<'_>| {
        let ElementData::Value(value) = one.data else { panic!("{one:?}") };
        found.push((value.to_vec(), one.expires_ms));
    };
    simulator.dump_elements(TableFamily::Ip, "t", "pins", &mut note).unwrap();
    found
}

#[test]
fn packets_write_refresh_and_delete_elements() {
    let flags = SetFlags { timeout: true, dynamic: true, ..SetFlags::default() };
    let bench = Bench::new().set("pins", Some((13, 4)), flags, 0);
    let mut simulator = bench.rule("base", &[DADDR, SPORT, pin(DynsetOp::Update, 2, Some(500))]).build();
    send(&mut simulator, packet());
    assert_eq!(pins(&mut simulator), [(vec![0x13, 0x88, 0, 0], Some(500))]);
    simulator.set_now(300);
    send(&mut simulator, Packet { source_port: 1, ..packet() });
    assert_eq!(pins(&mut simulator), [(vec![0x13, 0x88, 0, 0], Some(500))], "data stays, time starts over");
    simulator.set_now(800);
    assert_eq!(pins(&mut simulator), []);
    send(&mut simulator, packet());
    let mut batch = Batch::new(TableFamily::Ip, "t");
    batch.flush_rules();
    batch.add_rule(&Rule {
        chain: "base",
        expressions: vec![DADDR, SPORT, pin(DynsetOp::Delete, 2, None), DROP],
    });
    simulator.commit_bytes(batch.bytes()).unwrap();
    assert!(!passes(&mut simulator));
    assert_eq!(pins(&mut simulator), []);
    assert!(!passes(&mut simulator), "deleting what is not there does not end the rule");
}

#[test]
fn a_write_to_a_full_set_ends_the_rule() {
    let flags = SetFlags { timeout: true, dynamic: true, ..SetFlags::default() };
    let update = pin(DynsetOp::Update, 2, Some(500));
    let bench = Bench::new().set("pins", Some((13, 4)), flags, 1);
    let mut simulator = bench.rule("base", &[DADDR, SPORT, update, RETURN]).rule("base", &[DROP]).build();
    assert!(passes(&mut simulator));
    assert!(passes(&mut simulator), "known already");
    let other = Packet { destination: ip("198.51.100.8"), ..packet() };
    assert_eq!(send(&mut simulator, other.clone()).outcome, Outcome::Dropped);
    simulator.set_now(500);
    assert!(matches!(send(&mut simulator, other).outcome, Outcome::Delivered(_)));
}

#[test]
fn the_first_nat_decision_stands() {
    let mut batch = Batch::new(TableFamily::Ip6, "t");
    batch.add_table("");
    let map = Some((8 << 6 | 13, 20));
    let flags = SetFlags::default();
    for name in ["near", "far"] {
        let set = Set { name, key_type: 8, key_length: 16, data: map, flags, size: 0, user_data: &[] };
        batch.add_set(&set);
    }
    for (chain, priority, set, server) in
        [("second", -90, "far", "2001:db8::f"), ("first", -100, "near", "2001:db8::e")]
    {
        batch.add_chain(&Chain { name: chain, hook: base(HookKind::Nat, 0, priority) });
        let expressions = vec![
            Expression::Payload { base: Base::Network, offset: 24, length: 16, to: Reg(1) },
            Expression::Lookup { set, key: Reg(1), to: Some(Reg(2)), invert: false },
            Expression::Dnat { address: Reg(2), port: Some(Reg(16)) },
        ];
        batch.add_rule(&Rule { chain, expressions });
        let data = [bytes(server), vec![0x1f, 0x90, 0, 0]].concat();
        batch.add_element(set, &bytes("2001:db8::5"), ElementData::Value(&data), None);
    }
    let mut simulator = Simulator::new();
    simulator.commit_bytes(batch.bytes()).unwrap();
    let packet = Packet { source: ip("2001:db8:9::1"), destination: ip("2001:db8::5"), ..packet() };
    let journey = send(&mut simulator, packet.clone());
    let delivery = journey.delivery().unwrap();
    assert_eq!((delivery.to, delivery.port), (ip("2001:db8::e"), 8080));
    simulator.delete_rule(TableFamily::Ip6, "t", "first", 0);
    assert_eq!(send(&mut simulator, packet).delivery().unwrap().to, ip("2001:db8::f"));
}

#[test]
fn draws_are_even() {
    let mut random = Xorshift::new(7);
    let mut counts = [0_u32; 3];
    for _ in 0..3000 {
        counts[random.draw(3) as usize] += 1;
    }
    assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
}
