//! What a kernel refuses, and near misses that it takes: each a set-up and the batch in question.

use super::part::Part::{self, *};
use super::wire::*;

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) setup: fn(&mut Wire),
    pub(crate) batch: fn(&mut Wire),
    /// 0: taken.
    pub(crate) errno: i32,
}

const A: &[u8] = &[10, 0, 0, 1];
const B: &[u8] = &[10, 0, 0, 2];
const C: &[u8] = &[10, 0, 0, 3];
const D: &[u8] = &[10, 0, 0, 4];
const DADDR: Part<'static> = Payload { base: 1, offset: 16, length: 4, to: 1 };
const DADDR8: Part<'static> = Payload { base: 1, offset: 16, length: 4, to: 8 };

const fn goto(chain: &'static str) -> Part<'static> {
    Verdict(Data::Goto(chain))
}

const fn jump(chain: &'static str) -> Part<'static> {
    Verdict(Data::Jump(chain))
}

const fn vmap(set: &'static str) -> Part<'static> {
    Lookup { set, from: 1, to: Some(0), invert: false }
}

const fn member(set: &'static str) -> Part<'static> {
    Lookup { set, from: 1, to: None, invert: false }
}

fn nothing(_: &mut Wire) {}

fn a_table(w: &mut Wire) {
    w.table();
}

/// Chains a, b, c; a filter base chain; sets of addresses, verdicts and values.
fn furnished(w: &mut Wire) {
    w.table().base("in", "filter", 1, 0).chain("a").chain("b").chain("c");
    w.set("plain", 4, 0, Holds::Nothing);
    w.set("verdicts", 4, 0, Holds::Verdicts);
    w.set("values", 4, 0, Holds::Values(8));
    w.set("ranges", 4, INTERVAL, Holds::Nothing);
    w.set_with("small", 4, 0, Holds::Nothing, 2, CREATE);
    w.set("pins", 4, TIMEOUT | DYNAMIC, Holds::Values(4));
    w.set("timed", 4, TIMEOUT, Holds::Nothing);
}

/// A counter that the map `counted` leads to, and one that nothing leads to.
fn counting(w: &mut Wire) {
    furnished(w);
    w.counter("used").counter("unused").set("counted", 4, 0, Holds::Objects(1));
    w.add("counted", A, Data::Counter("used"));
}

fn ranged(w: &mut Wire) {
    furnished(w);
    w.add("ranges", A, Data::None).add_end("ranges", C);
}

/// in → a → (verdicts) → b
fn mapped(w: &mut Wire) {
    furnished(w);
    w.rule("in", &[jump("a")]).rule("a", &[DADDR, vmap("verdicts")]).add("verdicts", A, Data::Goto("b"));
}

/// A base chain and `below` chains, each leading to the next.
fn deep(w: &mut Wire, below: usize) {
    w.base("in", "filter", 1, 0);
    for n in 0..below {
        w.chain(&format!("c{n}"));
    }
    for n in 1..below {
        w.rule(&format!("c{}", n - 1), &[Verdict(Data::Goto(&format!("c{n}")))]);
    }
    w.rule("in", &[jump("c0")]);
}

macro_rules! cases {
    ($($name:literal: $setup:expr, $batch:expr, $errno:expr;)*) => {
        pub(crate) const CASES: &[Case] = &[$(Case { name: $name, setup: $setup, batch: $batch, errno: $errno }),*];
    };
}

cases! {
    "delete a missing table": nothing, |w| { w.delete_table("nowhere"); }, libc::ENOENT;
    "add a table twice": a_table, |w| { w.table(); }, 0;
    "add a table exclusively": a_table, |w| { w.table_with(CREATE | EXCL); }, libc::EEXIST;
    "replace a table": a_table, |w| { w.table().delete_table(TABLE).table(); }, 0;
    "delete a table with everything": mapped, |w| { w.delete_table(TABLE).table(); }, 0;

    "chain in a missing table": nothing, |w| { w.chain("a"); }, libc::ENOENT;
    "chain twice": furnished, |w| { w.chain("a"); }, 0;
    "chain exclusively": furnished, |w| { w.chain_with("a", CREATE | EXCL); }, libc::EEXIST;
    "nat chain on forward": a_table, |w| { w.base("n", "nat", 2, 0); }, libc::EOPNOTSUPP;
    "nat chain before conntrack": a_table, |w| { w.base("n", "nat", 0, -250); }, libc::EOPNOTSUPP;
    "route chain on output": a_table, |w| { w.base("r", "route", 3, -90); }, 0;
    "route chain on input": a_table, |w| { w.base("r", "route", 1, 0); }, libc::EOPNOTSUPP;
    "route chain becomes a filter chain": |w| { a_table(w); w.base("r", "route", 3, 0); }, |w| { w.base("r", "filter", 3, 0); }, libc::EEXIST;
    "chain of an unknown type": a_table, |w| { w.base("n", "nothing", 0, 0); }, libc::ENOENT;
    "base chain again": furnished, |w| { w.base("in", "filter", 1, 0); }, 0;
    "base chain moved to another hook": furnished, |w| { w.base("in", "filter", 2, 0); }, libc::EOPNOTSUPP;
    "base chain at another priority": furnished, |w| { w.base("in", "filter", 1, 5); }, libc::EOPNOTSUPP;
    "base chain of another type": furnished, |w| { w.base("in", "nat", 1, 0); }, libc::EEXIST;
    "destroy a missing table": nothing, |w| { w.message(26, 0, |w| w.string(1, "nowhere")); }, 0;
    "destroy a missing chain": furnished, |w| { w.destroy_named(27, 3, "z"); }, 0;
    "destroy a chain in use": mapped, |w| { w.destroy_named(27, 3, "a"); }, libc::EBUSY;
    "destroy rules of a missing chain": furnished, |w| { w.destroy_named(28, 2, "z"); }, 0;
    "destroy a missing set": furnished, |w| { w.destroy_named(29, 2, "z"); }, 0;
    "destroy a set in use": mapped, |w| { w.destroy_named(29, 2, "verdicts"); }, libc::EBUSY;
    "a message of no kind": a_table, |w| { w.message(77, 0, |_| {}); }, libc::EINVAL;
    "a nameless chain's nameless table": a_table, |w| { w.message(3, CREATE, |_| {}); }, libc::EINVAL;
    "a very long name": a_table, |w| { w.chain(&"x".repeat(300)); }, libc::ERANGE;
    "plain chain becomes a base chain": furnished, |w| { w.base("a", "filter", 1, 0); }, libc::EEXIST;
    "delete a missing chain": furnished, |w| { w.delete_chain("z"); }, libc::ENOENT;
    "delete an unused chain": furnished, |w| { w.delete_chain("c"); }, 0;
    "delete a chain a rule leads to": mapped, |w| { w.delete_chain("a"); }, libc::EBUSY;
    "delete a chain an element leads to": mapped, |w| { w.delete_chain("b"); }, libc::EBUSY;
    "delete a chain with its own rules": mapped, |w| { w.delete_rules(Some("in"), None).delete_chain("a"); }, 0;
    "delete an element and its chain": mapped, |w| { w.delete("verdicts", A).delete_chain("b"); }, 0;

    "rule in a missing chain": furnished, |w| { w.rule("z", &[]); }, libc::ENOENT;
    "rule without create": furnished, |w| { w.rule_with("a", APPEND, &[]); }, libc::EINVAL;
    "rule with an unknown instruction": furnished, |w| { w.rule("a", &[Named("nothing")]); }, libc::ENOENT;
    "goto a missing chain": furnished, |w| { w.rule("a", &[goto("z")]); }, libc::ENOENT;
    "goto a base chain": furnished, |w| { w.rule("a", &[goto("in")]); }, libc::EOPNOTSUPP;
    "goto a chain made later": furnished, |w| { w.rule("a", &[goto("z")]).chain("z"); }, libc::ENOENT;
    "lookup in a missing set": furnished, |w| { w.rule("a", &[DADDR, member("z")]); }, libc::ENOENT;
    "lookup of a loaded key": furnished, |w| { w.rule("a", &[DADDR, member("plain")]); }, 0;
    "lookup of a key never loaded": furnished, |w| { w.rule("a", &[member("plain")]); }, libc::ENODATA;
    "lookup of a key half loaded": |w| { furnished(w); w.set("wide", 8, 0, Holds::Nothing); },
        |w| { w.rule("a", &[DADDR, member("wide")]); }, libc::ENODATA;
    "registers 1 and 8 are one": furnished,
        |w| { w.rule("a", &[DADDR8, member("plain")]); }, 0;
    "compare what was never loaded": furnished, |w| { w.rule("a", &[Compare { from: 1, value: A }]); }, libc::ENODATA;
    "compare more than was loaded": furnished,
        |w| { w.rule("a", &[DADDR, Compare { from: 1, value: &[0; 8] }]); }, libc::ENODATA;
    "mark from nothing": furnished, |w| { w.rule("a", &[SetMark { from: 1 }]); }, libc::ENODATA;
    "a register that does not exist": furnished,
        |w| { w.rule("a", &[Payload { base: 1, offset: 0, length: 4, to: 5 }]); }, libc::ERANGE;
    "beyond the last register": furnished,
        |w| { w.rule("a", &[Payload { base: 1, offset: 0, length: 8, to: 23 }]); }, libc::ERANGE;
    "a load of nothing": furnished,
        |w| { w.rule("a", &[Payload { base: 1, offset: 0, length: 0, to: 1 }]); }, libc::EINVAL;
    "verdict of a map of values": furnished, |w| { w.rule("a", &[DADDR, vmap("values")]); }, libc::EINVAL;
    "value of a verdict map": furnished,
        |w| { w.rule("a", &[DADDR, Lookup { set: "verdicts", from: 1, to: Some(2), invert: false }]); }, libc::EINVAL;
    "value of a set": furnished, |w| { w.rule("a", &[DADDR, vmap("plain")]); }, libc::EINVAL;
    "value of what is not there": furnished,
        |w| { w.rule("a", &[DADDR, Lookup { set: "values", from: 1, to: Some(2), invert: true }]); }, libc::EINVAL;
    "membership in a map": furnished, |w| { w.rule("a", &[DADDR, member("values")]); }, 0;
    "a draw among none": furnished, |w| { w.rule("a", &[Numgen { modulus: 0, to: 1 }]); }, libc::ERANGE;
    "original address without direction": furnished,
        |w| { w.rule("a", &[Ct { key: 20, direction: None, to: 1 }]); }, libc::EINVAL;
    "state with direction": furnished,
        |w| { w.rule("a", &[Ct { key: 0, direction: Some(0), to: 1 }]); }, libc::EINVAL;
    "packets write to a set not made for it": furnished,
        |w| { w.rule("a", &[DADDR, Dynset { set: "small", op: 0, key: 1, data: None, timeout: None }]); }, libc::EOPNOTSUPP;
    "update in a set without timeouts": |w| { furnished(w); w.set("counted", 4, DYNAMIC, Holds::Nothing); },
        |w| { w.rule("a", &[DADDR, Dynset { set: "counted", op: 1, key: 1, data: None, timeout: None }]); }, 0;
    "timeout for a set without timeouts": |w| { furnished(w); w.set("counted", 4, DYNAMIC, Holds::Nothing); },
        |w| { w.rule("a", &[DADDR, Dynset { set: "counted", op: 0, key: 1, data: None, timeout: Some(1) }]); }, libc::EOPNOTSUPP;
    "packets write to a set without size": furnished,
        |w| { w.rule("a", &[DADDR, Dynset { set: "plain", op: 0, key: 1, data: None, timeout: None }]); }, 0;
    "packets write to an interval set": furnished,
        |w| { w.rule("a", &[DADDR, Dynset { set: "ranges", op: 0, key: 1, data: None, timeout: None }]); }, libc::EOPNOTSUPP;
    "packets write to a set with timeouts": |w| { furnished(w); w.set_with("some", 4, TIMEOUT, Holds::Nothing, 9, CREATE); },
        |w| { w.rule("a", &[DADDR, Dynset { set: "some", op: 0, key: 1, data: None, timeout: None }]); }, 0;
    "packets write to a verdict map": |w| { furnished(w); w.set("dv", 4, DYNAMIC, Holds::Verdicts); },
        |w| { w.rule("a", &[DADDR, Dynset { set: "dv", op: 0, key: 1, data: Some(1), timeout: None }]); }, libc::EOPNOTSUPP;
    "write data to a set": |w| { furnished(w); w.set("counted", 4, DYNAMIC, Holds::Nothing); },
        |w| { w.rule("a", &[DADDR, Dynset { set: "counted", op: 0, key: 1, data: Some(1), timeout: None }]); }, libc::EOPNOTSUPP;
    "packets delete a pin": furnished,
        |w| { w.rule("a", &[DADDR, Dynset { set: "pins", op: 2, key: 1, data: Some(1), timeout: None }]); }, 0;
    "packets delete a pin, naming no data": furnished,
        |w| { w.rule("a", &[DADDR, Dynset { set: "pins", op: 2, key: 1, data: None, timeout: None }]); }, libc::EINVAL;
    "write a map without data": furnished,
        |w| { w.rule("a", &[DADDR, Dynset { set: "pins", op: 1, key: 1, data: None, timeout: None }]); }, libc::EINVAL;
    "write data never loaded": furnished,
        |w| { w.rule("a", &[DADDR, Dynset { set: "pins", op: 1, key: 1, data: Some(2), timeout: None }]); }, libc::ENODATA;
    "write a pin": furnished,
        |w| { w.rule("a", &[DADDR, Dynset { set: "pins", op: 1, key: 1, data: Some(1), timeout: Some(3000) }]); }, 0;
    "delete rules of a missing chain": furnished, |w| { w.delete_rules(Some("z"), None); }, libc::ENOENT;
    "delete a missing rule": mapped, |w| { w.delete_rules(Some("a"), Some(9999)); }, libc::ENOENT;
    "delete no rules": furnished, |w| { w.delete_rules(Some("a"), None); }, 0;
    "delete all rules": mapped, |w| { w.delete_rules(None, None).delete_chain("a"); }, 0;

    "redirect from a filter chain": furnished,
        |w| { w.rule("in", &[DADDR, Dnat { address: 1, port: None }]); }, libc::EOPNOTSUPP;
    "redirect in a chain nobody reaches": furnished,
        |w| { w.rule("a", &[DADDR, Dnat { address: 1, port: None }]); }, 0;
    "reach a redirect from a filter chain": |w| { furnished(w); w.rule("a", &[DADDR, Dnat { address: 1, port: None }]); },
        |w| { w.rule("in", &[jump("a")]); }, libc::EOPNOTSUPP;
    "reach a redirect through a map": |w| { mapped(w); w.rule("c", &[DADDR, Dnat { address: 1, port: None }]); },
        |w| { w.chain("d").add("verdicts", B, Data::Goto("b")).add("verdicts", C, Data::Goto("c")); }, libc::EOPNOTSUPP;
    "redirect to an unloaded address": furnished, |w| { w.rule("a", &[Dnat { address: 1, port: None }]); }, libc::ENODATA;
    "redirect to an unloaded port": furnished, |w| { w.rule("a", &[DADDR, Dnat { address: 1, port: Some(2) }]); }, libc::ENODATA;
    "redirect on prerouting": furnished,
        |w| { w.base("pre", "nat", 0, -100).rule("pre", &[DADDR, Dnat { address: 1, port: None }]); }, 0;
    "redirect on postrouting": furnished,
        |w| { w.base("post", "nat", 4, 100).rule("post", &[DADDR, Dnat { address: 1, port: None }]); }, libc::EOPNOTSUPP;
    "masquerade on prerouting": furnished, |w| { w.base("pre", "nat", 0, -100).rule("pre", &[Masquerade]); }, libc::EOPNOTSUPP;
    "masquerade on postrouting": furnished, |w| { w.base("post", "nat", 4, 100).rule("post", &[Masquerade]); }, 0;
    "reject on input": furnished, |w| { w.rule("in", &[Reject]); }, 0;
    "reject on prerouting": furnished, |w| { w.base("pre", "filter", 0, 0).rule("pre", &[Reject]); }, 0;
    "reject on postrouting": furnished, |w| { w.base("post", "filter", 4, 0).rule("post", &[Reject]); }, libc::EOPNOTSUPP;

    "a loop of gotos": furnished,
        |w| { w.rule("in", &[jump("a")]).rule("a", &[goto("b")]).rule("b", &[goto("a")]); }, libc::EMLINK;
    "a loop nobody reaches": furnished, |w| { w.rule("a", &[goto("b")]).rule("b", &[goto("a")]); }, 0;
    "reach a loop": |w| { furnished(w); w.rule("a", &[goto("b")]).rule("b", &[goto("a")]); },
        |w| { w.rule("in", &[jump("a")]); }, libc::EMLINK;
    "a chain leads to itself": furnished, |w| { w.rule("in", &[jump("a")]).rule("a", &[jump("a")]); }, libc::EMLINK;
    "a loop through a map": mapped, |w| { w.add("verdicts", B, Data::Goto("a")); }, libc::EMLINK;
    "a loop behind a map": mapped, |w| { w.add("verdicts", B, Data::Goto("c")).rule("c", &[jump("a")]); }, libc::EMLINK;
    "sixteen chains deep": a_table, |w| deep(w, 15), 0;
    "seventeen chains deep": a_table, |w| deep(w, 16), libc::EMLINK;
    "a map nobody looks up leads anywhere": furnished, |w| { w.add("verdicts", B, Data::Goto("a")); }, 0;

    "set in a missing table": nothing, |w| { w.set("s", 4, 0, Holds::Nothing); }, libc::ENOENT;
    "set twice": furnished, |w| { w.set("plain", 4, 0, Holds::Nothing); }, 0;
    "set twice with another size": furnished, |w| { w.set_with("plain", 4, 0, Holds::Nothing, 7, CREATE); }, 0;
    "set made larger, too late for this batch": furnished,
        |w| {
            w.set_with("small", 4, 0, Holds::Nothing, 3, CREATE);
            w.add("small", A, Data::None).add("small", B, Data::None).add("small", C, Data::None);
        }, libc::ENFILE;
    "set exclusively": furnished, |w| { w.set_with("plain", 4, 0, Holds::Nothing, 0, CREATE | EXCL); }, libc::EEXIST;
    "set with another key": furnished, |w| { w.set("plain", 8, 0, Holds::Nothing); }, libc::EEXIST;
    "set becomes a map": furnished, |w| { w.set("plain", 4, 0, Holds::Values(4)); }, libc::EEXIST;
    "set without create": furnished, |w| { w.set_with("s", 4, 0, Holds::Nothing, 0, 0); }, libc::ENOENT;
    "set with a key of nothing": furnished, |w| { w.set("s", 0, 0, Holds::Nothing); }, libc::EINVAL;
    "set with a huge key": furnished, |w| { w.set("s", 68, 0, Holds::Nothing); }, libc::EINVAL;
    "map of nothing": furnished, |w| { w.set("s", 4, 0, Holds::Values(0)); }, libc::EINVAL;
    "delete a missing set": furnished, |w| { w.delete_set("z"); }, libc::ENOENT;
    "delete a set in use": mapped, |w| { w.delete_set("verdicts"); }, libc::EBUSY;
    "delete a set with elements": furnished, |w| { w.add("plain", A, Data::None).delete_set("plain"); }, 0;
    "delete rules, then their set": mapped, |w| { w.delete_rules(None, None).delete_set("verdicts").delete_chain("b"); }, 0;

    "delete all that rules referred to": mapped,
        |w| {
            w.delete_rules(None, None).flush("verdicts").delete_set("verdicts").delete_set("plain");
            w.delete_chain("b").delete_chain("a").delete_chain("in");
        }, 0;

    "element in a missing set": furnished, |w| { w.add("z", A, Data::None); }, libc::ENOENT;
    "element twice": furnished, |w| { w.add("plain", A, Data::None).add("plain", A, Data::None); }, 0;
    "element exclusively": |w| { furnished(w); w.add("plain", A, Data::None); },
        |w| { w.element(12, CREATE | EXCL, "plain", A, Data::None, 0, None); }, libc::EEXIST;
    "short key": furnished, |w| { w.add("plain", &[1, 2], Data::None); }, libc::EINVAL;
    "long key": furnished, |w| { w.add("plain", &[0; 8], Data::None); }, libc::EINVAL;
    "huge key": furnished, |w| { w.add("plain", &[0; 80], Data::None); }, libc::EOVERFLOW;
    "set element with data": furnished, |w| { w.add("plain", A, Data::Value(A)); }, libc::EINVAL;
    "map element without data": furnished, |w| { w.add("values", A, Data::None); }, libc::EINVAL;
    "short data": furnished, |w| { w.add("values", A, Data::Value(A)); }, libc::EINVAL;
    "a verdict as value": furnished, |w| { w.add("values", A, Data::Accept); }, libc::EINVAL;
    "a value as verdict": furnished, |w| { w.add("verdicts", A, Data::Value(A)); }, libc::EINVAL;
    "same data again": furnished,
        |w| { w.add("values", A, Data::Value(&[1; 8])).add("values", A, Data::Value(&[1; 8])); }, 0;
    "other data": furnished,
        |w| { w.add("values", A, Data::Value(&[1; 8])).add("values", A, Data::Value(&[2; 8])); }, libc::EEXIST;
    "same verdict again": mapped, |w| { w.add("verdicts", A, Data::Goto("b")); }, 0;
    "other verdict": mapped, |w| { w.add("verdicts", A, Data::Goto("c")); }, libc::EEXIST;
    "verdict replaced": mapped, |w| { w.delete("verdicts", A).add("verdicts", A, Data::Goto("c")); }, 0;
    "verdict replaced twice": mapped,
        |w| { w.delete("verdicts", A).add("verdicts", A, Data::Goto("c")).delete("verdicts", A).add("verdicts", A, Data::Accept); }, 0;
    "element leads to a missing chain": furnished, |w| { w.add("verdicts", A, Data::Goto("z")); }, libc::ENOENT;
    "element leads to a base chain": furnished, |w| { w.add("verdicts", A, Data::Goto("in")); }, libc::EOPNOTSUPP;
    "full set": furnished,
        |w| { w.add("small", A, Data::None).add("small", B, Data::None).add("small", C, Data::None); }, libc::ENFILE;
    "full set, one known": |w| { furnished(w); w.add("small", A, Data::None).add("small", B, Data::None); },
        |w| { w.add("small", B, Data::None); }, 0;
    "full set, one swapped": |w| { furnished(w); w.add("small", A, Data::None).add("small", B, Data::None); },
        |w| { w.delete("small", A).add("small", C, Data::None); }, 0;
    "delete a missing element": furnished, |w| { w.delete("plain", A); }, libc::ENOENT;
    "delete an element twice": |w| { furnished(w); w.add("plain", A, Data::None); },
        |w| { w.delete("plain", A).delete("plain", A); }, libc::ENOENT;
    "delete with a short key": furnished, |w| { w.delete("plain", &[1]); }, libc::EINVAL;
    "delete and add": |w| { furnished(w); w.add("plain", A, Data::None); },
        |w| { w.delete("plain", A).add("plain", A, Data::None).delete("plain", A).add("plain", A, Data::None); }, 0;
    "add and delete": furnished, |w| { w.add("plain", A, Data::None).delete("plain", A); }, 0;
    "destroy a missing element": furnished, |w| { w.destroy("plain", A); }, 0;
    "destroy in a missing set": furnished, |w| { w.destroy("z", A); }, libc::ENOENT;
    "flush": mapped, |w| { w.flush("verdicts").delete_chain("b"); }, 0;
    "flush a missing set": furnished, |w| { w.flush("z"); }, libc::ENOENT;
    "late error undoes all": mapped,
        |w| { w.flush("verdicts").add("plain", A, Data::None).delete_rules(None, None).delete_chain("c").delete("plain", B); }, libc::ENOENT;
    "timeout in a set without": furnished,
        |w| { w.element(12, CREATE, "plain", A, Data::None, 0, Some(1000)); }, libc::EINVAL;
    "timeout": furnished, |w| { w.element(12, CREATE, "timed", A, Data::None, 0, Some(100_000)); }, 0;

    "counter in a missing table": nothing, |w| { w.counter("c"); }, libc::ENOENT;
    "counter twice": counting, |w| { w.counter("used"); }, 0;
    "counter exclusively": counting, |w| { w.object(18, CREATE | EXCL, "used", 1); }, libc::EEXIST;
    "delete a missing counter": counting, |w| { w.delete_counter("z"); }, libc::ENOENT;
    "delete a counter": counting, |w| { w.delete_counter("unused"); }, 0;
    "delete a counter in use": counting, |w| { w.delete_counter("used"); }, libc::EBUSY;
    "delete a counter behind its element": counting, |w| { w.delete("counted", A).delete_counter("used"); }, 0;
    "delete a counter behind the flush of its map": counting, |w| { w.flush("counted").delete_counter("used"); }, 0;
    "delete a counter behind its map": counting, |w| { w.delete_set("counted").delete_counter("used"); }, 0;
    "delete a counter, then its element": counting,
        |w| { w.delete_counter("used").delete("counted", A); }, libc::EBUSY;
    "counter replaced": counting,
        |w| { w.delete("counted", A).delete_counter("used").counter("used").add("counted", A, Data::Counter("used")); }, 0;
    "map to counters that does not say so": counting, |w| { w.set("s", 4, 0, Holds::Objects(0)); }, libc::EINVAL;
    "map to counters, written by packets": counting, |w| { w.set("s", 4, DYNAMIC, Holds::Objects(1)); }, libc::EOPNOTSUPP;
    "element of a missing counter": counting, |w| { w.add("counted", B, Data::Counter("z")); }, libc::ENOENT;
    "element without a counter": counting, |w| { w.add("counted", B, Data::None); }, libc::EINVAL;
    "element with a counter in a plain set": counting, |w| { w.add("plain", A, Data::Counter("used")); }, libc::EINVAL;
    "same counter again": counting, |w| { w.add("counted", A, Data::Counter("used")); }, 0;
    "other counter": counting, |w| { w.add("counted", A, Data::Counter("unused")); }, libc::EEXIST;
    "count in a map": counting, |w| { w.rule("a", &[DADDR, CountIn { map: "counted", from: 1 }]); }, 0;
    "count in a missing map": counting, |w| { w.rule("a", &[DADDR, CountIn { map: "z", from: 1 }]); }, libc::ENOENT;
    "count in a plain set": counting, |w| { w.rule("a", &[DADDR, CountIn { map: "plain", from: 1 }]); }, libc::EINVAL;
    "count by a key never loaded": counting, |w| { w.rule("a", &[CountIn { map: "counted", from: 1 }]); }, libc::ENODATA;
    "delete a map that counts": |w| { counting(w); w.rule("a", &[DADDR, CountIn { map: "counted", from: 1 }]); },
        |w| { w.delete_set("counted"); }, libc::EBUSY;

    "interval": furnished, |w| { w.add("ranges", A, Data::None).add_end("ranges", B); }, 0;
    "interval end in a plain set": furnished, |w| { w.add_end("plain", B); }, libc::EINVAL;
    "interval twice": ranged, |w| { w.add("ranges", A, Data::None).add_end("ranges", C); }, 0;
    "interval exclusively": ranged, |w| { w.element(12, CREATE | EXCL, "ranges", A, Data::None, 0, None); }, libc::EEXIST;
    "interval inside another": ranged, |w| { w.add("ranges", B, Data::None).add_end("ranges", C); }, libc::EEXIST;
    "interval across the start": |w| { furnished(w); w.add("ranges", B, Data::None).add_end("ranges", D); },
        |w| { w.add("ranges", A, Data::None).add_end("ranges", C); }, libc::EEXIST;
    "interval across the end": ranged, |w| { w.add("ranges", B, Data::None).add_end("ranges", D); }, libc::EEXIST;
    "interval around another": |w| { furnished(w); w.add("ranges", B, Data::None).add_end("ranges", C); },
        |w| { w.add("ranges", A, Data::None).add_end("ranges", D); }, libc::EEXIST;
    "interval begun like another": ranged, |w| { w.add("ranges", A, Data::None).add_end("ranges", B); }, libc::EEXIST;
    "interval next to another": ranged, |w| { w.add("ranges", C, Data::None).add_end("ranges", D); }, 0;
    "delete an interval": ranged,
        |w| { w.element(14, 0, "ranges", A, Data::None, 0, None).element(14, 0, "ranges", C, Data::None, 1, None); }, 0;
    "delete a missing interval": ranged, |w| { w.delete("ranges", B); }, libc::ENOENT;
    "end before start": furnished, |w| { w.add_end("ranges", B).add("ranges", A, Data::None); }, 0;
    "lone end": furnished, |w| { w.add_end("ranges", B); }, 0;
    "lone end, later an interval above": |w| { furnished(w); w.add_end("ranges", A); },
        |w| { w.add("ranges", B, Data::None).add_end("ranges", C); }, 0;
    "starts, then ends": furnished,
        |w| { w.add("ranges", A, Data::None).add("ranges", C, Data::None).add_end("ranges", B).add_end("ranges", D); }, libc::EEXIST;
    "two lone ends": furnished, |w| { w.add_end("ranges", A).add_end("ranges", C); }, libc::EEXIST;
    "two lone ends, downwards": furnished, |w| { w.add_end("ranges", C).add_end("ranges", A); }, libc::EEXIST;
    "end behind an interval": ranged, |w| { w.add_end("ranges", D); }, libc::EEXIST;
    "end before an interval": |w| { furnished(w); w.add("ranges", B, Data::None).add_end("ranges", C); },
        |w| { w.add_end("ranges", A); }, 0;
    "start behind a start without end": furnished,
        |w| { w.add("ranges", A, Data::None).add("ranges", B, Data::None); }, libc::EEXIST;
    "interval behind an open one": |w| { furnished(w); w.add("ranges", A, Data::None); },
        |w| { w.add("ranges", B, Data::None).add_end("ranges", C); }, libc::EEXIST;
    "interval before an open one": |w| { furnished(w); w.add("ranges", C, Data::None); },
        |w| { w.add("ranges", A, Data::None).add_end("ranges", B); }, 0;
    "end inside an interval": ranged, |w| { w.add_end("ranges", B); }, libc::EEXIST;
    "delete the start only": ranged, |w| { w.delete("ranges", A); }, 0;
    "add to the end of an interval": ranged, |w| { w.add("ranges", C, Data::None); }, 0;
    "interval moved": ranged,
        |w| { w.delete("ranges", A).element(14, 0, "ranges", C, Data::None, 1, None).add("ranges", B, Data::None).add_end("ranges", D); }, 0;
    "lone end at zero": furnished, |w| { w.add_end("ranges", &[0; 4]).add("ranges", A, Data::None).add_end("ranges", B); }, 0;
    "interval to the last value": furnished, |w| { w.add("ranges", A, Data::None); }, 0;
}
