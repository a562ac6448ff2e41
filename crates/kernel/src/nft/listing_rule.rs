//! The instructions of a rule, read back. Pure: the counterpart of `encode::instruction`.

use super::sys::*;
use super::{
    Base, CompareOp, CtDirection, CtKey, DynsetOp, Expression, MetaKey, Reg, Reject, VerdictCode, decode,
};
use crate::netlink::Attribute;

#[derive(Clone, Debug, PartialEq)]
pub struct ListedRule<'a> {
    pub chain: &'a str,
    pub handle: u64,
    pub instructions: Vec<Instruction<'a>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Instruction<'a> {
    Known(Expression<'a>),
    /// A counter of the rule itself.
    Counted {
        packets: u64,
        bytes: u64,
    },
    /// One that this program does not write, by the kernel's name.
    Other(&'a str),
}

pub(super) fn instruction<'a>(one: &Attribute<'a>) -> Instruction<'a> {
    let part = |kind| one.nested().find(|part| part.kind == kind);
    let name = part(NFTA_EXPR_NAME).and_then(|name| name.text()).unwrap_or("?");
    let Some(data) = part(NFTA_EXPR_DATA) else { return Instruction::Other(name) };
    let body = Body(data);
    if name == "counter" {
        let count = |kind| body.find(kind).and_then(|part| part.be64()).unwrap_or_default();
        return Instruction::Counted {
            packets: count(NFTA_COUNTER_PACKETS),
            bytes: count(NFTA_COUNTER_BYTES),
        };
    }
    body.expression(name).map_or(Instruction::Other(name), Instruction::Known)
}

/// The attributes of one instruction.
struct Body<'a>(Attribute<'a>);

impl<'a> Body<'a> {
    fn find(&self, kind: u16) -> Option<Attribute<'a>> {
        self.0.nested().find(|part| part.kind == kind)
    }

    fn number(&self, kind: u16) -> Option<u32> {
        self.find(kind)?.be32()
    }

    fn register(&self, kind: u16) -> Option<Reg> {
        self.number(kind).map(Reg)
    }

    fn text(&self, kind: u16) -> Option<&'a str> {
        self.find(kind)?.text()
    }

    fn bytes(&self, kind: u16) -> Option<Vec<u8>> {
        self.find(kind).and_then(|data| decode::value(&data)).map(<[u8]>::to_vec)
    }

    fn expression(&self, name: &str) -> Option<Expression<'a>> {
        Some(match name {
            "payload" => self.payload()?,
            "meta" => self.meta()?,
            "ct" => self.ct()?,
            "cmp" => Expression::Compare {
                op: match self.number(NFTA_CMP_OP)? {
                    NFT_CMP_EQ => CompareOp::Equal,
                    NFT_CMP_NEQ => CompareOp::NotEqual,
                    _ => return None,
                },
                reg: self.register(NFTA_CMP_SREG)?,
                value: self.bytes(NFTA_CMP_DATA)?,
            },
            "bitwise" => Expression::Bitwise {
                from: self.register(NFTA_BITWISE_SREG)?,
                to: self.register(NFTA_BITWISE_DREG)?,
                mask: self.bytes(NFTA_BITWISE_MASK)?,
                xor: self.bytes(NFTA_BITWISE_XOR)?,
            },
            "numgen" if self.number(NFTA_NG_TYPE) == Some(NFT_NG_RANDOM) => Expression::NumgenRandom {
                modulus: self.number(NFTA_NG_MODULUS)?,
                to: self.register(NFTA_NG_DREG)?,
            },
            "lookup" => Expression::Lookup {
                set: self.text(NFTA_LOOKUP_SET)?,
                key: self.register(NFTA_LOOKUP_SREG)?,
                to: self.register(NFTA_LOOKUP_DREG),
                invert: self.number(NFTA_LOOKUP_FLAGS).is_some_and(|flags| flags & NFT_LOOKUP_F_INV != 0),
            },
            "dynset" => self.dynset()?,
            "immediate" if self.number(NFTA_IMMEDIATE_DREG) == Some(0) => {
                Expression::Verdict(self.verdict()?)
            }
            "nat" if self.number(NFTA_NAT_TYPE) == Some(NFT_NAT_DNAT) => Expression::Dnat {
                address: self.register(NFTA_NAT_REG_ADDR_MIN)?,
                port: self.register(NFTA_NAT_REG_PROTO_MIN),
            },
            "masq" => {
                let flags = self.number(NFTA_MASQ_FLAGS).unwrap_or_default();
                Expression::Masquerade { fully_random: flags & NF_NAT_RANGE_PROTO_RANDOM_FULLY != 0 }
            }
            "reject" => Expression::Reject(match self.number(NFTA_REJECT_TYPE)? {
                NFT_REJECT_TCP_RST => Reject::TcpReset,
                NFT_REJECT_ICMP_UNREACH => Reject::PortUnreachable,
                _ => return None,
            }),
            "objref" => match (self.text(NFTA_OBJREF_IMM_NAME), self.text(NFTA_OBJREF_SET_NAME)) {
                (Some(name), _) => Expression::Count(name),
                (None, Some(map)) => Expression::CountIn { map, key: self.register(NFTA_OBJREF_SET_SREG)? },
                (None, None) => return None,
            },
            _ => return None,
        })
    }

    fn payload(&self) -> Option<Expression<'a>> {
        Some(Expression::Payload {
            base: match self.number(NFTA_PAYLOAD_BASE)? {
                NFT_PAYLOAD_NETWORK_HEADER => Base::Network,
                NFT_PAYLOAD_TRANSPORT_HEADER => Base::Transport,
                _ => return None,
            },
            offset: self.number(NFTA_PAYLOAD_OFFSET)?,
            length: self.number(NFTA_PAYLOAD_LEN)?,
            to: self.register(NFTA_PAYLOAD_DREG)?,
        })
    }

    fn meta(&self) -> Option<Expression<'a>> {
        let key = match self.number(NFTA_META_KEY)? {
            NFT_META_MARK => MetaKey::Mark,
            NFT_META_L4PROTO => MetaKey::L4Proto,
            NFT_META_IIFNAME => MetaKey::IifName,
            NFT_META_OIFNAME => MetaKey::OifName,
            _ => return None,
        };
        match (self.register(NFTA_META_DREG), self.register(NFTA_META_SREG)) {
            (Some(to), _) => Some(Expression::Meta { key, to }),
            (None, Some(from)) if key == MetaKey::Mark => Some(Expression::SetMark { from }),
            _ => None,
        }
    }

    fn ct(&self) -> Option<Expression<'a>> {
        let key = match self.number(NFTA_CT_KEY)? {
            NFT_CT_STATE => CtKey::State,
            NFT_CT_DIRECTION => CtKey::Direction,
            NFT_CT_STATUS => CtKey::Status,
            NFT_CT_DST_IP => CtKey::DestinationIp,
            NFT_CT_DST_IP6 => CtKey::DestinationIp6,
            NFT_CT_PROTO_DST => CtKey::ProtoDestination,
            _ => return None,
        };
        let direction = match self.find(NFTA_CT_DIRECTION).and_then(|part| part.u8()) {
            None => None,
            Some(0) => Some(CtDirection::Original),
            Some(_) => return None,
        };
        Some(Expression::Ct { key, direction, to: self.register(NFTA_CT_DREG)? })
    }

    fn dynset(&self) -> Option<Expression<'a>> {
        Some(Expression::Dynset {
            set: self.text(NFTA_DYNSET_SET_NAME)?,
            op: match self.number(NFTA_DYNSET_OP)? {
                NFT_DYNSET_OP_UPDATE => DynsetOp::Update,
                NFT_DYNSET_OP_DELETE => DynsetOp::Delete,
                _ => return None,
            },
            key: self.register(NFTA_DYNSET_SREG_KEY)?,
            data: self.register(NFTA_DYNSET_SREG_DATA),
            timeout_ms: self
                .find(NFTA_DYNSET_TIMEOUT)
                .and_then(|part| part.be64())
                .filter(|timeout| *timeout > 0),
        })
    }

    fn verdict(&self) -> Option<VerdictCode<'a>> {
        let data = self.find(NFTA_IMMEDIATE_DATA)?;
        let verdict = data.nested().find(|part| part.kind == NFTA_DATA_VERDICT)?;
        let part = |kind| verdict.nested().find(|part| part.kind == kind);
        let chain = || part(NFTA_VERDICT_CHAIN).and_then(|chain| chain.text());
        Some(match part(NFTA_VERDICT_CODE)?.be32()? as i32 {
            NF_ACCEPT => VerdictCode::Accept,
            NF_DROP => VerdictCode::Drop,
            NFT_RETURN => VerdictCode::Return,
            NFT_JUMP => VerdictCode::Jump(chain()?),
            NFT_GOTO => VerdictCode::Goto(chain()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::messages;
    use crate::nft::{Batch, Rule, TableFamily};

    fn written() -> Vec<Expression<'static>> {
        let reg = Reg(1);
        vec![
            Expression::Payload { base: Base::Network, offset: 16, length: 4, to: reg },
            Expression::Payload { base: Base::Transport, offset: 2, length: 2, to: Reg(9) },
            Expression::Meta { key: MetaKey::L4Proto, to: reg },
            Expression::Meta { key: MetaKey::Mark, to: reg },
            Expression::SetMark { from: reg },
            Expression::Ct { key: CtKey::State, direction: None, to: reg },
            Expression::Ct { key: CtKey::DestinationIp, direction: Some(CtDirection::Original), to: reg },
            Expression::Compare { op: CompareOp::NotEqual, reg, value: vec![1, 2, 3, 4] },
            Expression::Bitwise { from: reg, to: reg, mask: vec![255; 4], xor: vec![0; 4] },
            Expression::NumgenRandom { modulus: 3, to: reg },
            Expression::Lookup { set: "set", key: reg, to: None, invert: true },
            Expression::Lookup { set: "map", key: reg, to: Some(reg), invert: false },
            Expression::Dynset {
                set: "map",
                op: DynsetOp::Update,
                key: reg,
                data: Some(reg),
                timeout_ms: Some(5),
            },
            Expression::Dynset { set: "map", op: DynsetOp::Delete, key: reg, data: None, timeout_ms: None },
            Expression::Verdict(VerdictCode::Accept),
            Expression::Verdict(VerdictCode::Drop),
            Expression::Verdict(VerdictCode::Return),
            Expression::Verdict(VerdictCode::Jump("chain")),
            Expression::Verdict(VerdictCode::Goto("chain")),
            Expression::Dnat { address: reg, port: Some(Reg(9)) },
            Expression::Masquerade { fully_random: true },
            Expression::Reject(Reject::TcpReset),
            Expression::Reject(Reject::PortUnreachable),
            Expression::Count("counter"),
            Expression::CountIn { map: "counters", key: reg },
        ]
    }

    fn read(bytes: &[u8]) -> Vec<Instruction<'_>> {
        let lists = messages(bytes).filter_map(|message| decode::find(&message, NFTA_RULE_EXPRESSIONS));
        lists.flat_map(|list| list.nested().map(|one| instruction(&one)).collect::<Vec<_>>()).collect()
    }

    #[test]
    fn instructions_are_read_as_they_were_written() {
        let expressions = written();
        let mut batch = Batch::new(TableFamily::Ip, "table");
        batch.add_rule(&Rule { chain: "chain", expressions: expressions.clone() });
        let wanted: Vec<_> = expressions.into_iter().map(Instruction::Known).collect();
        assert_eq!(read(batch.bytes()), wanted);
    }

    #[test]
    fn cut_and_garbled_rules_are_read_without_panic() {
        let mut batch = Batch::new(TableFamily::Ip, "table");
        batch.add_rule(&Rule { chain: "chain", expressions: written() });
        let bytes = batch.bytes();
        for place in 0..bytes.len() {
            read(bytes.get(..place).unwrap());
            for wrong in [0, 1, 0x7f, 0xff] {
                let mut bytes = bytes.to_vec();
                bytes[place] = wrong;
                read(&bytes);
            }
        }
    }
}
