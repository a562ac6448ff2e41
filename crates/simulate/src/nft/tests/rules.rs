//! The rules of the proxy's table in miniature.

use kernel::nft::*;

use super::layout::{MARK, PIN_MS};

/// Registers are numbered in words from 8 on.
fn daddr(to: u32) -> Expression<'static> {
    Expression::Payload { base: Base::Network, offset: 16, length: 4, to: Reg(to) }
}

fn saddr(to: u32) -> Expression<'static> {
    Expression::Payload { base: Base::Network, offset: 12, length: 4, to: Reg(to) }
}

fn l4proto(to: u32) -> Expression<'static> {
    Expression::Meta { key: MetaKey::L4Proto, to: Reg(to) }
}

fn dport(to: u32) -> Expression<'static> {
    Expression::Payload { base: Base::Transport, offset: 2, length: 2, to: Reg(to) }
}

fn original_daddr(to: u32) -> Expression<'static> {
    let direction = Some(CtDirection::Original);
    Expression::Ct { key: CtKey::DestinationIp, direction, to: Reg(to) }
}

fn original_dport(to: u32) -> Expression<'static> {
    let direction = Some(CtDirection::Original);
    Expression::Ct { key: CtKey::ProtoDestination, direction, to: Reg(to) }
}

fn vip_key() -> Vec<Expression<'static>> {
    vec![daddr(8), l4proto(9), dport(10)]
}

fn np_key() -> Vec<Expression<'static>> {
    vec![l4proto(8), dport(9)]
}

fn vmap(set: &'static str) -> Expression<'static> {
    Expression::Lookup { set, key: Reg(8), to: Some(Reg(0)), invert: false }
}

fn member(set: &'static str) -> Expression<'static> {
    Expression::Lookup { set, key: Reg(8), to: None, invert: false }
}

fn go(chain: &'static str) -> Expression<'static> {
    Expression::Verdict(VerdictCode::Goto(chain))
}

fn jump(chain: &'static str) -> Expression<'static> {
    Expression::Verdict(VerdictCode::Jump(chain))
}

fn drop_it() -> Expression<'static> {
    Expression::Verdict(VerdictCode::Drop)
}

fn compare(op: CompareOp, reg: u32, value: &[u8]) -> Expression<'static> {
    Expression::Compare { op, reg: Reg(reg), value: value.to_vec() }
}

fn masked(reg: u32, mask: [u8; 4]) -> Expression<'static> {
    Expression::Bitwise { from: Reg(reg), to: Reg(reg), mask: mask.to_vec(), xor: vec![0; 4] }
}

fn mark(mask: u32, xor: u32) -> Vec<Expression<'static>> {
    let (mask, xor) = (mask.to_ne_bytes().to_vec(), xor.to_ne_bytes().to_vec());
    vec![
        Expression::Meta { key: MetaKey::Mark, to: Reg(8) },
        Expression::Bitwise { from: Reg(8), to: Reg(8), mask, xor },
        Expression::SetMark { from: Reg(8) },
    ]
}

fn set_mark() -> Vec<Expression<'static>> {
    mark(!MARK, MARK)
}

fn not_local() -> Vec<Expression<'static>> {
    vec![saddr(8), masked(8, [255, 255, 0, 0]), compare(CompareOp::NotEqual, 8, &[10, 244, 0, 0])]
}

fn state_new() -> Vec<Expression<'static>> {
    vec![
        Expression::Ct { key: CtKey::State, direction: None, to: Reg(8) },
        masked(8, 8_u32.to_ne_bytes()),
        compare(CompareOp::NotEqual, 8, &[0; 4]),
    ]
}

fn status(mask: u32, value: u32) -> Vec<Expression<'static>> {
    vec![
        Expression::Ct { key: CtKey::Status, direction: None, to: Reg(8) },
        masked(8, mask.to_ne_bytes()),
        compare(CompareOp::Equal, 8, &value.to_ne_bytes()),
    ]
}

fn dnat(set: &'static str, key: Vec<Expression<'static>>) -> Vec<Expression<'static>> {
    let find = Expression::Lookup { set, key: Reg(8), to: Some(Reg(8)), invert: false };
    let send = Expression::Dnat { address: Reg(8), port: Some(Reg(9)) };
    [key, vec![find, send]].concat()
}

fn drawn(mut key: Vec<Expression<'static>>, modulus: u32) -> Vec<Expression<'static>> {
    key.push(Expression::NumgenRandom { modulus, to: Reg(8 + key.len() as u32) });
    key
}

fn with(mut rule: Vec<Expression<'static>>, more: Expression<'static>) -> Vec<Expression<'static>> {
    rule.push(more);
    rule
}

pub(super) fn nat_rules() -> Vec<(&'static str, Vec<Expression<'static>>)> {
    let mark_outsiders = [not_local(), vec![daddr(8), member("cluster-ips")], set_mark()].concat();
    let masquerade = Expression::Masquerade { fully_random: true };
    let mut rules = Vec::new();
    for chain in ["nat-prerouting", "nat-output"] {
        rules.push((chain, mark_outsiders.clone()));
        rules.push((chain, vec![jump("services")]));
        rules.push((chain, vec![go("slot-zero")]));
    }
    let marked = [
        vec![Expression::Meta { key: MetaKey::Mark, to: Reg(8) }, masked(8, MARK.to_ne_bytes())],
        vec![compare(CompareOp::NotEqual, 8, &[0; 4])],
        mark(u32::MAX, MARK),
    ]
    .concat();
    let hairpin = [status(0x20, 0x20), vec![saddr(8), daddr(9), l4proto(10), dport(11)]].concat();
    rules.extend([
        ("services", with(vip_key(), vmap("service-ips"))),
        ("services", vec![daddr(8), member("nodeport-ips"), go("nodeports")]),
        ("services", vec![Expression::Verdict(VerdictCode::Accept)]),
        ("nodeports", with(np_key(), vmap("service-nodeports"))),
        ("nodeports", vec![Expression::Verdict(VerdictCode::Accept)]),
        ("slot-zero", dnat("endpoints", drawn(vip_key(), 1))),
        ("lb-2", dnat("endpoints", drawn(vip_key(), 2))),
        ("aff-2", dnat("affinity", vec![saddr(8), daddr(9), l4proto(10), dport(11)])),
        ("aff-2", vec![go("lb-2")]),
        ("ext-2", with(set_mark(), go("lb-2"))),
        ("np-2", dnat("nodeport-endpoints", drawn(np_key(), 2))),
        ("np-ext-2", with(set_mark(), go("np-2"))),
        ("nat-postrouting", with(marked, masquerade.clone())),
        ("nat-postrouting", [hairpin, vec![member("hairpin-connections"), masquerade]].concat()),
    ]);
    rules
}

pub(super) fn filter_rules() -> Vec<(&'static str, Vec<Expression<'static>>)> {
    let guard = [state_new(), vip_key(), vec![member("firewall-ips"), jump("firewall-check")]].concat();
    let allowed = [vip_key(), vec![saddr(11), masked(11, [255, 255, 255, 0]), member("firewall-allow-24")]];
    let first = with(status(0x28, 0x20), go("affinity-record"));
    let original = vec![original_daddr(8), l4proto(9), original_dport(10)];
    let pinned = vec![original_daddr(9), l4proto(10), original_dport(11)];
    let to_member = [original.clone(), vec![daddr(11), dport(12), member("affinity-endpoints-3")]].concat();
    let write = |op, timeout_ms| {
        let pin = Expression::Dynset { set: "affinity", op, key: Reg(8), data: Some(Reg(12)), timeout_ms };
        [vec![saddr(8)], pinned.clone(), vec![daddr(12), dport(13), pin]].concat()
    };
    let node_port = vec![daddr(8), member("nodeport-ips")];
    let no_node_port = [node_port, np_key(), vec![member("no-endpoint-reject-nodeports"), go("reject-it")]];
    vec![
        ("filter-prerouting-pre-dnat", guard.clone()),
        ("filter-output-pre-dnat", guard),
        ("firewall-check", with(allowed.concat(), Expression::Verdict(VerdictCode::Return))),
        ("firewall-check", vec![drop_it()]),
        ("filter-input", with(state_new(), go("input-new"))),
        ("filter-forward", with(state_new(), go("forward-new"))),
        ("filter-output", with(state_new(), go("forward-new"))),
        ("input-new", first.clone()),
        ("input-new", no_node_port.concat()),
        ("forward-new", first),
        ("forward-new", [vip_key(), vec![member("no-endpoint-drop-ips"), drop_it()]].concat()),
        ("forward-new", [vip_key(), vec![member("no-endpoint-reject-ips"), go("reject-it")]].concat()),
        ("forward-new", vec![daddr(8), member("cluster-ips"), go("reject-it")]),
        ("forward-new", vec![daddr(8), member("service-cidrs"), drop_it()]),
        (
            "reject-it",
            vec![l4proto(8), compare(CompareOp::Equal, 8, &[6]), Expression::Reject(Reject::TcpReset)],
        ),
        ("reject-it", vec![Expression::Reject(Reject::PortUnreachable)]),
        ("affinity-record", [original, vec![member("affinity-ips"), go("affinity-pin")]].concat()),
        ("affinity-pin", with(to_member, go("affinity-write"))),
        ("affinity-pin", vec![go("affinity-stale")]),
        // A write that finds no room ends its rule: in affinity-pin the packet would fall to the stale.
        ("affinity-write", write(DynsetOp::Update, Some(PIN_MS))),
        ("affinity-stale", with(write(DynsetOp::Delete, None), drop_it())),
    ]
}
