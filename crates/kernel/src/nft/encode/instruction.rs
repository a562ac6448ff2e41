//! The attributes of each instruction of the nf_tables machine.

use super::{family_number, value, verdict};
use crate::netlink::Writer;
use crate::nft::sys::*;
use crate::nft::{
    Base, CompareOp, CtDirection, CtKey, DynsetOp, Expression, MetaKey, Reg, Reject, TableFamily,
};

/// The kernel's name of the instruction.
pub(super) fn name(expression: &Expression<'_>) -> &'static str {
    match expression {
        Expression::Payload { .. } => "payload",
        Expression::Meta { .. } | Expression::SetMark { .. } | Expression::SetTrace { .. } => "meta",
        Expression::Limit { .. } => "limit",
        Expression::Ct { .. } => "ct",
        Expression::Compare { .. } => "cmp",
        Expression::Bitwise { .. } => "bitwise",
        Expression::NumgenRandom { .. } => "numgen",
        Expression::Lookup { .. } => "lookup",
        Expression::Dynset { .. } => "dynset",
        Expression::Verdict(_) | Expression::Immediate { .. } => "immediate",
        Expression::Dnat { .. } => "nat",
        Expression::Masquerade { .. } => "masq",
        Expression::Reject(_) => "reject",
        Expression::Counter => "counter",
        Expression::Count(_) | Expression::CountIn { .. } => "objref",
    }
}

/// Its attributes.
pub(super) fn body(writer: &mut Writer, family: TableFamily, expression: &Expression<'_>) {
    match *expression {
        Expression::Payload { base, offset, length, to } => payload(writer, base, offset, length, to),
        Expression::Meta { key, to } => {
            writer.be32(NFTA_META_KEY, meta_key(key));
            writer.be32(NFTA_META_DREG, to.0);
        }
        Expression::SetMark { from } => {
            writer.be32(NFTA_META_KEY, NFT_META_MARK);
            writer.be32(NFTA_META_SREG, from.0);
        }
        Expression::SetTrace { from } => {
            writer.be32(NFTA_META_KEY, NFT_META_NFTRACE);
            writer.be32(NFTA_META_SREG, from.0);
        }
        Expression::Limit { per_second, burst } => {
            writer.be64(NFTA_LIMIT_RATE, per_second);
            writer.be64(NFTA_LIMIT_UNIT, 1);
            writer.be32(NFTA_LIMIT_BURST, burst);
            writer.be32(NFTA_LIMIT_TYPE, NFT_LIMIT_PKTS);
        }
        Expression::Immediate { to, value: ref bytes } => {
            writer.be32(NFTA_IMMEDIATE_DREG, to.0);
            value(writer, NFTA_IMMEDIATE_DATA, bytes);
        }
        Expression::Ct { key, direction, to } => ct(writer, key, direction, to),
        Expression::Compare { op, reg, value: ref bytes } => {
            writer.be32(NFTA_CMP_SREG, reg.0);
            writer.be32(NFTA_CMP_OP, compare_op(op));
            value(writer, NFTA_CMP_DATA, bytes);
        }
        Expression::Bitwise { from, to, ref mask, ref xor } => bitwise(writer, from, to, mask, xor),
        Expression::NumgenRandom { modulus, to } => {
            writer.be32(NFTA_NG_DREG, to.0);
            writer.be32(NFTA_NG_MODULUS, modulus);
            writer.be32(NFTA_NG_TYPE, NFT_NG_RANDOM);
        }
        Expression::Lookup { set, key, to, invert } => lookup(writer, set, key, to, invert),
        Expression::Dynset { set, op, key, data, timeout_ms } => {
            dynset(writer, set, op, key, data, timeout_ms);
        }
        Expression::Verdict(code) => {
            writer.be32(NFTA_IMMEDIATE_DREG, 0);
            verdict(writer, NFTA_IMMEDIATE_DATA, code);
        }
        Expression::Dnat { address, port } => dnat(writer, family, address, port),
        Expression::Masquerade { fully_random } => {
            if fully_random {
                writer.be32(NFTA_MASQ_FLAGS, NF_NAT_RANGE_PROTO_RANDOM_FULLY);
            }
        }
        Expression::Reject(how) => reject(writer, family, how),
        Expression::Counter => {}
        Expression::Count(name) => {
            writer.be32(NFTA_OBJREF_IMM_TYPE, NFT_OBJECT_COUNTER);
            writer.string(NFTA_OBJREF_IMM_NAME, name);
        }
        Expression::CountIn { map, key } => {
            writer.be32(NFTA_OBJREF_SET_SREG, key.0);
            writer.string(NFTA_OBJREF_SET_NAME, map);
        }
    }
}

fn payload(writer: &mut Writer, base: Base, offset: u32, length: u32, to: Reg) {
    let base = match base {
        Base::Network => NFT_PAYLOAD_NETWORK_HEADER,
        Base::Transport => NFT_PAYLOAD_TRANSPORT_HEADER,
    };
    writer.be32(NFTA_PAYLOAD_DREG, to.0);
    writer.be32(NFTA_PAYLOAD_BASE, base);
    writer.be32(NFTA_PAYLOAD_OFFSET, offset);
    writer.be32(NFTA_PAYLOAD_LEN, length);
}

fn meta_key(key: MetaKey) -> u32 {
    match key {
        MetaKey::Mark => NFT_META_MARK,
        MetaKey::L4Proto => NFT_META_L4PROTO,
        MetaKey::IifName => NFT_META_IIFNAME,
        MetaKey::OifName => NFT_META_OIFNAME,
    }
}

fn ct(writer: &mut Writer, key: CtKey, direction: Option<CtDirection>, to: Reg) {
    let key = match key {
        CtKey::State => NFT_CT_STATE,
        CtKey::Direction => NFT_CT_DIRECTION,
        CtKey::Status => NFT_CT_STATUS,
        CtKey::DestinationIp => NFT_CT_DST_IP,
        CtKey::DestinationIp6 => NFT_CT_DST_IP6,
        CtKey::ProtoDestination => NFT_CT_PROTO_DST,
    };
    writer.be32(NFTA_CT_DREG, to.0);
    writer.be32(NFTA_CT_KEY, key);
    match direction {
        None => {}
        Some(CtDirection::Original) => writer.u8(NFTA_CT_DIRECTION, 0),
    }
}

fn compare_op(op: CompareOp) -> u32 {
    match op {
        CompareOp::Equal => NFT_CMP_EQ,
        CompareOp::NotEqual => NFT_CMP_NEQ,
    }
}

fn bitwise(writer: &mut Writer, from: Reg, to: Reg, mask: &[u8], xor: &[u8]) {
    writer.be32(NFTA_BITWISE_SREG, from.0);
    writer.be32(NFTA_BITWISE_DREG, to.0);
    writer.be32(NFTA_BITWISE_LEN, mask.len() as u32);
    value(writer, NFTA_BITWISE_MASK, mask);
    value(writer, NFTA_BITWISE_XOR, xor);
}

fn lookup(writer: &mut Writer, set: &str, key: Reg, to: Option<Reg>, invert: bool) {
    writer.string(NFTA_LOOKUP_SET, set);
    writer.be32(NFTA_LOOKUP_SREG, key.0);
    if let Some(to) = to {
        writer.be32(NFTA_LOOKUP_DREG, to.0);
    }
    if invert {
        writer.be32(NFTA_LOOKUP_FLAGS, NFT_LOOKUP_F_INV);
    }
}

fn dynset(
    writer: &mut Writer,
    set: &str,
    op: DynsetOp,
    key: Reg,
    data: Option<Reg>,
    timeout_ms: Option<u64>,
) {
    let op = match op {
        DynsetOp::Update => NFT_DYNSET_OP_UPDATE,
        DynsetOp::Delete => NFT_DYNSET_OP_DELETE,
    };
    writer.string(NFTA_DYNSET_SET_NAME, set);
    writer.be32(NFTA_DYNSET_OP, op);
    writer.be32(NFTA_DYNSET_SREG_KEY, key.0);
    if let Some(data) = data {
        writer.be32(NFTA_DYNSET_SREG_DATA, data.0);
    }
    if let Some(timeout) = timeout_ms {
        writer.be64(NFTA_DYNSET_TIMEOUT, timeout);
    }
}

fn dnat(writer: &mut Writer, family: TableFamily, address: Reg, port: Option<Reg>) {
    writer.be32(NFTA_NAT_TYPE, NFT_NAT_DNAT);
    writer.be32(NFTA_NAT_FAMILY, u32::from(family_number(family)));
    writer.be32(NFTA_NAT_REG_ADDR_MIN, address.0);
    if let Some(port) = port {
        writer.be32(NFTA_NAT_REG_PROTO_MIN, port.0);
    }
}

fn reject(writer: &mut Writer, family: TableFamily, how: Reject) {
    match how {
        Reject::TcpReset => {
            writer.be32(NFTA_REJECT_TYPE, NFT_REJECT_TCP_RST);
            writer.u8(NFTA_REJECT_ICMP_CODE, 0);
        }
        Reject::PortUnreachable => {
            writer.be32(NFTA_REJECT_TYPE, NFT_REJECT_ICMP_UNREACH);
            let code = match family {
                TableFamily::Ip => ICMP_PORT_UNREACH,
                TableFamily::Ip6 => ICMPV6_PORT_UNREACH,
            };
            writer.u8(NFTA_REJECT_ICMP_CODE, code);
        }
    }
}
