//! The rules by which packets are marked to be followed.

use std::net::IpAddr;

use super::super::{
    Base, Batch, Chain, CompareOp, CtKey, Expression, Hook, HookKind, MetaKey, Reg, Rule, TableFamily,
};
use super::Wanted;

/// How the names of tracing tables begin; the port id of the owner follows.
pub(super) const PREFIX: &str = "kube-proxy-trace-";
pub(super) const PROTOCOLS: [u8; 3] =
    [libc::IPPROTO_TCP as u8, libc::IPPROTO_UDP as u8, libc::IPPROTO_SCTP as u8];

const PREROUTING: u32 = 0;
const OUTPUT: u32 = 3;
/// Right behind conntrack, which knows whether a packet begins a connection.
const BEHIND_CONNTRACK: i32 = -199;
/// `NF_CT_STATE_BIT(IP_CT_NEW)`.
const STATE_NEW: u32 = 1 << 3;

pub(super) fn batch(table: &str, wanted: &Wanted) -> Batch {
    let family = match wanted.to {
        IpAddr::V4(_) => TableFamily::Ip,
        IpAddr::V6(_) => TableFamily::Ip6,
    };
    let mut batch = Batch::new(family, table);
    batch.add_owned_table("kube-proxy trace; goes by itself");
    for (chain, number) in [("prerouting", PREROUTING), ("output", OUTPUT)] {
        let hook = Hook { kind: HookKind::Filter, number, priority: BEHIND_CONNTRACK };
        batch.add_chain(&Chain { name: chain, hook: Some(hook) });
        for protocol in
            PROTOCOLS.into_iter().filter(|one| wanted.protocol.is_none_or(|wanted| wanted == *one))
        {
            batch.add_rule(&Rule { chain, expressions: expressions(wanted, protocol) });
        }
    }
    batch
}

fn expressions<'a>(wanted: &Wanted, protocol: u8) -> Vec<Expression<'a>> {
    const TO: Reg = Reg(1);
    let equal = |value: Vec<u8>| Expression::Compare { op: CompareOp::Equal, reg: TO, value };
    let (source, destination) = if wanted.to.is_ipv4() { (12, 16) } else { (8, 24) };
    let address = |offset, ip: IpAddr| {
        let value = match ip {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        let length = value.len() as u32;
        [Expression::Payload { base: Base::Network, offset, length, to: TO }, equal(value)]
    };
    let mut expressions = Vec::from(address(destination, wanted.to));
    expressions.extend([Expression::Meta { key: MetaKey::L4Proto, to: TO }, equal(vec![protocol])]);
    if let Some(port) = wanted.port {
        let load = Expression::Payload { base: Base::Transport, offset: 2, length: 2, to: TO };
        expressions.extend([load, equal(port.to_be_bytes().to_vec())]);
    }
    expressions.extend(wanted.from.into_iter().flat_map(|from| address(source, from)));
    let is_new = STATE_NEW.to_ne_bytes().to_vec();
    expressions.extend([
        Expression::Ct { key: CtKey::State, direction: None, to: TO },
        Expression::Bitwise { from: TO, to: TO, mask: is_new.clone(), xor: vec![0; 4] },
        equal(is_new),
        Expression::Limit { per_second: wanted.per_second, burst: wanted.per_second.min(1000) as u32 },
        Expression::Immediate { to: TO, value: vec![1] },
        Expression::SetTrace { from: TO },
    ]);
    expressions
}
