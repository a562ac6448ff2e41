//! The instructions of a rule, from bytes. Registers are resolved here; whether they hold something is
//! checked in `registers`.

use kernel::nft::TableFamily;
use kernel::nft::sys::*;

use super::Errno;
use super::decode::{Fields, datum};
use super::instruction::*;

pub(super) fn instructions(family: TableFamily, fields: &Fields<'_>) -> Result<Vec<Instruction>, Errno> {
    let Some(list) = fields.get(NFTA_RULE_EXPRESSIONS) else { return Ok(Vec::new()) };
    list.nested()
        .map(|one| {
            if one.kind != NFTA_LIST_ELEM {
                return Err(libc::EINVAL);
            }
            let expression = Fields::of(one.value);
            let name = expression.name(NFTA_EXPR_NAME)?.ok_or(libc::EINVAL)?;
            let data = expression.nest(NFTA_EXPR_DATA).unwrap_or(Fields::of(&[]));
            instruction(family, name, &data)
        })
        .collect()
}

fn instruction(family: TableFamily, name: &str, fields: &Fields<'_>) -> Result<Instruction, Errno> {
    match name {
        "payload" => payload(fields),
        "meta" => meta(fields),
        "ct" => ct(fields),
        "cmp" => compare(fields),
        "bitwise" => bitwise(fields),
        "numgen" => numgen(fields),
        "lookup" => lookup(fields),
        "dynset" => dynset(fields),
        "immediate" => immediate(fields),
        "nat" => nat(family, fields),
        "masq" => Ok(Instruction::Masquerade),
        "reject" => reject(fields),
        "counter" => Ok(Instruction::Counter),
        "objref" => count_in(fields),
        _ => Err(libc::ENOENT),
    }
}

fn needed(fields: &Fields<'_>, kind: u16) -> Result<u32, Errno> {
    fields.number(kind)?.ok_or(libc::EINVAL)
}

fn register(fields: &Fields<'_>, kind: u16) -> Result<Register, Errno> {
    Register::from_number(needed(fields, kind)?)
}

fn optional_register(fields: &Fields<'_>, kind: u16) -> Result<Option<Register>, Errno> {
    fields.number(kind)?.map(Register::from_number).transpose()
}

fn value(fields: &Fields<'_>, kind: u16) -> Result<Box<[u8]>, Errno> {
    match datum(fields, kind)? {
        Some(Datum::Value(value)) => Ok(value),
        _ => Err(libc::EINVAL),
    }
}

fn payload(fields: &Fields<'_>) -> Result<Instruction, Errno> {
    let header = match needed(fields, NFTA_PAYLOAD_BASE)? {
        NFT_PAYLOAD_NETWORK_HEADER => Header::Network,
        NFT_PAYLOAD_TRANSPORT_HEADER => Header::Transport,
        _ => return Err(libc::EOPNOTSUPP),
    };
    let offset = needed(fields, NFTA_PAYLOAD_OFFSET)? as usize;
    let length = needed(fields, NFTA_PAYLOAD_LEN)? as usize;
    if length > u8::MAX as usize {
        return Err(libc::ERANGE);
    }
    Ok(Instruction::Payload { header, offset, length, to: register(fields, NFTA_PAYLOAD_DREG)? })
}

fn meta(fields: &Fields<'_>) -> Result<Instruction, Errno> {
    let key = needed(fields, NFTA_META_KEY)?;
    if let Some(from) = optional_register(fields, NFTA_META_SREG)? {
        return if key == NFT_META_MARK { Ok(Instruction::SetMark { from }) } else { Err(libc::EOPNOTSUPP) };
    }
    let key = match key {
        NFT_META_MARK => Meta::Mark,
        NFT_META_IIFNAME => Meta::IifName,
        NFT_META_OIFNAME => Meta::OifName,
        NFT_META_L4PROTO => Meta::L4Proto,
        _ => return Err(libc::EOPNOTSUPP),
    };
    Ok(Instruction::Meta { key, to: register(fields, NFTA_META_DREG)? })
}

fn ct(fields: &Fields<'_>) -> Result<Instruction, Errno> {
    let reply = fields.get(NFTA_CT_DIRECTION).map(|direction| direction.u8() == Some(1));
    let key = match (needed(fields, NFTA_CT_KEY)?, reply) {
        (NFT_CT_STATE, None) => Ct::State,
        (NFT_CT_STATUS, None) => Ct::Status,
        (NFT_CT_DIRECTION, None) => Ct::Direction,
        (NFT_CT_DST_IP, Some(false)) => Ct::OriginalDestination(4),
        (NFT_CT_DST_IP6, Some(false)) => Ct::OriginalDestination(16),
        (NFT_CT_DST_IP, Some(true)) => Ct::ReplyDestination(4),
        (NFT_CT_DST_IP6, Some(true)) => Ct::ReplyDestination(16),
        (NFT_CT_PROTO_DST, Some(false)) => Ct::OriginalPort,
        (NFT_CT_PROTO_DST, Some(true)) => Ct::ReplyPort,
        (NFT_CT_STATE | NFT_CT_STATUS | NFT_CT_DIRECTION, Some(_)) => return Err(libc::EINVAL),
        (NFT_CT_DST_IP | NFT_CT_DST_IP6 | NFT_CT_PROTO_DST, None) => return Err(libc::EINVAL),
        _ => return Err(libc::EOPNOTSUPP),
    };
    Ok(Instruction::Ct { key, to: register(fields, NFTA_CT_DREG)? })
}

fn compare(fields: &Fields<'_>) -> Result<Instruction, Errno> {
    let op = match needed(fields, NFTA_CMP_OP)? {
        NFT_CMP_EQ => Compare::Equal,
        NFT_CMP_NEQ => Compare::NotEqual,
        2 => Compare::Less,
        3 => Compare::LessOrEqual,
        4 => Compare::Greater,
        5 => Compare::GreaterOrEqual,
        _ => return Err(libc::EINVAL),
    };
    let from = register(fields, NFTA_CMP_SREG)?;
    Ok(Instruction::Compare { op, from, value: value(fields, NFTA_CMP_DATA)? })
}

fn bitwise(fields: &Fields<'_>) -> Result<Instruction, Errno> {
    if fields.number(NFTA_BITWISE_OP)?.unwrap_or_default() != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    let length = needed(fields, NFTA_BITWISE_LEN)? as usize;
    let (mask, xor) = (value(fields, NFTA_BITWISE_MASK)?, value(fields, NFTA_BITWISE_XOR)?);
    if mask.len() != length || xor.len() != length {
        return Err(libc::EINVAL);
    }
    let (from, to) = (register(fields, NFTA_BITWISE_SREG)?, register(fields, NFTA_BITWISE_DREG)?);
    Ok(Instruction::Bitwise { from, to, mask, xor })
}

fn numgen(fields: &Fields<'_>) -> Result<Instruction, Errno> {
    let offset = fields.number(NFTA_NG_OFFSET)?.unwrap_or_default();
    let modulus = needed(fields, NFTA_NG_MODULUS)?;
    if modulus == 0 {
        return Err(libc::ERANGE);
    }
    if offset.checked_add(modulus - 1).is_none() {
        return Err(libc::EOVERFLOW);
    }
    if needed(fields, NFTA_NG_TYPE)? != NFT_NG_RANDOM {
        return Err(libc::EINVAL);
    }
    Ok(Instruction::Random { modulus, offset, to: register(fields, NFTA_NG_DREG)? })
}

fn lookup(fields: &Fields<'_>) -> Result<Instruction, Errno> {
    let set = fields.name(NFTA_LOOKUP_SET)?.ok_or(libc::EINVAL)?.to_owned();
    let flags = fields.number(NFTA_LOOKUP_FLAGS)?.unwrap_or_default();
    let key = register(fields, NFTA_LOOKUP_SREG)?;
    let to = optional_register(fields, NFTA_LOOKUP_DREG)?;
    if flags & !NFT_LOOKUP_F_INV != 0 {
        return Err(libc::EINVAL);
    }
    Ok(Instruction::Lookup { set, key, to, invert: flags & NFT_LOOKUP_F_INV != 0 })
}

/// `NFTA_DYNSET_FLAGS` and its inversion bit; expressions inside elements are not modelled.
const DYNSET_FLAGS: u16 = 9;
const DYNSET_INVERT: u32 = 1;

fn dynset(fields: &Fields<'_>) -> Result<Instruction, Errno> {
    let set = fields.name(NFTA_DYNSET_SET_NAME)?.ok_or(libc::EINVAL)?.to_owned();
    let op = match needed(fields, NFTA_DYNSET_OP)? {
        NFT_DYNSET_OP_ADD => Write::Add,
        NFT_DYNSET_OP_UPDATE => Write::Update,
        NFT_DYNSET_OP_DELETE => Write::Delete,
        _ => return Err(libc::EOPNOTSUPP),
    };
    let key = register(fields, NFTA_DYNSET_SREG_KEY)?;
    let data = optional_register(fields, NFTA_DYNSET_SREG_DATA)?;
    let timeout = fields.long(NFTA_DYNSET_TIMEOUT)?;
    let flags = fields.number(DYNSET_FLAGS)?.unwrap_or_default();
    if flags & !DYNSET_INVERT != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    Ok(Instruction::Dynset { set, op, key, data, timeout, invert: flags & DYNSET_INVERT != 0 })
}

fn immediate(fields: &Fields<'_>) -> Result<Instruction, Errno> {
    let to = register(fields, NFTA_IMMEDIATE_DREG)?;
    match (to, datum(fields, NFTA_IMMEDIATE_DATA)?) {
        (Register::VERDICT, Some(Datum::Verdict(verdict))) => Ok(Instruction::Verdict(verdict)),
        (Register::VERDICT, _) | (_, None | Some(Datum::Verdict(_) | Datum::Counter(_))) => Err(libc::EINVAL),
        (to, Some(Datum::Value(value))) => Ok(Instruction::Load { to, value }),
    }
}

fn nat(family: TableFamily, fields: &Fields<'_>) -> Result<Instruction, Errno> {
    let own = match family {
        TableFamily::Ip => 2,
        TableFamily::Ip6 => 10,
    };
    if needed(fields, NFTA_NAT_TYPE)? != NFT_NAT_DNAT || needed(fields, NFTA_NAT_FAMILY)? != own {
        return Err(libc::EOPNOTSUPP);
    }
    let address = optional_register(fields, NFTA_NAT_REG_ADDR_MIN)?;
    let port = optional_register(fields, NFTA_NAT_REG_PROTO_MIN)?;
    Ok(Instruction::Dnat { address, port })
}

fn count_in(fields: &Fields<'_>) -> Result<Instruction, Errno> {
    if let Some(name) = fields.name(NFTA_OBJREF_IMM_NAME)? {
        return match needed(fields, NFTA_OBJREF_IMM_TYPE)? {
            NFT_OBJECT_COUNTER => Ok(Instruction::Count(name.to_owned())),
            _ => Err(libc::EOPNOTSUPP),
        };
    }
    let map = fields.name(NFTA_OBJREF_SET_NAME)?.ok_or(libc::EOPNOTSUPP)?.to_owned();
    let key = optional_register(fields, NFTA_OBJREF_SET_SREG)?.ok_or(libc::EOPNOTSUPP)?;
    Ok(Instruction::CountIn { map, key })
}

fn reject(fields: &Fields<'_>) -> Result<Instruction, Errno> {
    match needed(fields, NFTA_REJECT_TYPE)? {
        NFT_REJECT_TCP_RST => Ok(Instruction::Reject(Refusal::TcpReset)),
        NFT_REJECT_ICMP_UNREACH if fields.get(NFTA_REJECT_ICMP_CODE).is_some() => {
            Ok(Instruction::Reject(Refusal::Icmp))
        }
        _ => Err(libc::EINVAL),
    }
}
