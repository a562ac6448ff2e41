//! How each object looks on the wire. Pure; the framing around it is in `batch`, the instructions of rules
//! are in [`instruction`].

mod instruction;

use super::sys::*;
use super::{Chain, ElementData, HookKind, Rule, Set, TableFamily, VERDICT, VerdictCode};
use crate::netlink::Writer;

/// `nfgenmsg`: family, version, and the subsystem the batch is for.
pub(crate) fn batch_header() -> [u8; 4] {
    let subsystem = NFNL_SUBSYS_NFTABLES.to_be_bytes();
    [0, 0, subsystem[0], subsystem[1]]
}

pub(crate) fn header(family: TableFamily) -> [u8; 4] {
    [family_number(family), 0, 0, 0]
}

pub(crate) fn family_number(family: TableFamily) -> u8 {
    match family {
        TableFamily::Ip => NFPROTO_IPV4,
        TableFamily::Ip6 => NFPROTO_IPV6,
    }
}

pub(crate) fn table(writer: &mut Writer, table: &str, comment: &str) {
    writer.string(NFTA_TABLE_NAME, table);
    if !comment.is_empty() {
        comment_attribute(writer, NFTA_TABLE_USERDATA, comment);
    }
}

pub(crate) fn chain(writer: &mut Writer, table: &str, chain: &Chain<'_>) {
    writer.string(NFTA_CHAIN_TABLE, table);
    writer.string(NFTA_CHAIN_NAME, chain.name);
    let Some(hook) = chain.hook else { return };
    let nest = writer.nest(NFTA_CHAIN_HOOK);
    writer.be32(NFTA_HOOK_HOOKNUM, hook.number);
    writer.be32(NFTA_HOOK_PRIORITY, hook.priority as u32);
    writer.end_nest(nest);
    writer.be32(NFTA_CHAIN_POLICY, NF_ACCEPT as u32);
    let kind = match hook.kind {
        HookKind::Filter => "filter",
        HookKind::Nat => "nat",
        HookKind::Route => "route",
    };
    writer.string(NFTA_CHAIN_TYPE, kind);
}

pub(crate) fn set(writer: &mut Writer, table: &str, set: &Set<'_>, id: u32) {
    writer.string(NFTA_SET_TABLE, table);
    writer.string(NFTA_SET_NAME, set.name);
    writer.be32(NFTA_SET_FLAGS, set_flags(set));
    writer.be32(NFTA_SET_KEY_TYPE, set.key_type);
    writer.be32(NFTA_SET_KEY_LEN, set.key_length);
    if let Some((kind, length)) = set.data {
        writer.be32(NFTA_SET_DATA_TYPE, kind);
        if kind != VERDICT {
            writer.be32(NFTA_SET_DATA_LEN, length);
        }
    }
    if set.flags.counters {
        writer.be32(NFTA_SET_OBJ_TYPE, NFT_OBJECT_COUNTER);
    }
    if set.size != 0 {
        let nest = writer.nest(NFTA_SET_DESC);
        writer.be32(NFTA_SET_DESC_SIZE, set.size);
        writer.end_nest(nest);
    }
    writer.be32(NFTA_SET_ID, id);
    if !set.user_data.is_empty() {
        writer.attribute(NFTA_SET_USERDATA, set.user_data);
    }
}

fn set_flags(set: &Set<'_>) -> u32 {
    let mut flags = 0;
    for (on, flag) in [
        (set.data.is_some(), NFT_SET_MAP),
        (set.flags.interval, NFT_SET_INTERVAL),
        (set.flags.timeout, NFT_SET_TIMEOUT),
        (set.flags.dynamic, NFT_SET_EVAL),
        (set.flags.counters, NFT_SET_OBJECT),
    ] {
        if on {
            flags |= flag;
        }
    }
    flags
}

pub(crate) fn counter(writer: &mut Writer, table: &str, name: &str) {
    counter_name(writer, table, name);
    let data = writer.nest(NFTA_OBJ_DATA);
    writer.end_nest(data);
}

pub(crate) fn counter_name(writer: &mut Writer, table: &str, name: &str) {
    writer.string(NFTA_OBJ_TABLE, table);
    writer.string(NFTA_OBJ_NAME, name);
    writer.be32(NFTA_OBJ_TYPE, NFT_OBJECT_COUNTER);
}

pub(crate) fn element(
    writer: &mut Writer,
    key: &[u8],
    data: ElementData<'_>,
    flags: u32,
    comment: Option<&str>,
) {
    let nest = writer.nest(NFTA_LIST_ELEM);
    value(writer, NFTA_SET_ELEM_KEY, key);
    match data {
        ElementData::None => {}
        ElementData::Value(bytes) => value(writer, NFTA_SET_ELEM_DATA, bytes),
        ElementData::Goto(chain) => verdict(writer, NFTA_SET_ELEM_DATA, VerdictCode::Goto(chain)),
        ElementData::Counter(name) => writer.string(NFTA_SET_ELEM_OBJREF, name),
    }
    if flags != 0 {
        writer.be32(NFTA_SET_ELEM_FLAGS, flags);
    }
    if let Some(comment) = comment {
        comment_attribute(writer, NFTA_SET_ELEM_USERDATA, comment);
    }
    writer.end_nest(nest);
}

/// What nft stores as a comment: type 0, length, text and its NUL. nft itself allows 128 bytes with the NUL.
fn comment_attribute(writer: &mut Writer, kind: u16, comment: &str) {
    let mut end = comment.len().min(COMMENT_LIMIT - 1);
    while !comment.is_char_boundary(end) {
        end -= 1;
    }
    let text = comment.get(..end).unwrap_or_default().as_bytes();
    let mut bytes = [0; COMMENT_LIMIT + 2];
    bytes[1] = text.len() as u8 + 1;
    bytes[2..2 + text.len()].copy_from_slice(text);
    writer.attribute(kind, &bytes[..text.len() + 3]);
}

/// An element that ends by itself: `lifetime_ms` after each refresh, the first time after `left_ms`.
pub(crate) fn timed_element(
    writer: &mut Writer,
    key: &[u8],
    data: ElementData<'_>,
    lifetime_ms: u64,
    left_ms: u64,
) {
    let nest = writer.nest(NFTA_LIST_ELEM);
    value(writer, NFTA_SET_ELEM_KEY, key);
    if let ElementData::Value(bytes) = data {
        value(writer, NFTA_SET_ELEM_DATA, bytes);
    }
    writer.be64(NFTA_SET_ELEM_TIMEOUT, lifetime_ms);
    writer.be64(NFTA_SET_ELEM_EXPIRATION, left_ms);
    writer.end_nest(nest);
}

pub(crate) fn rule(writer: &mut Writer, family: TableFamily, table: &str, rule: &Rule<'_>) {
    writer.string(NFTA_RULE_TABLE, table);
    writer.string(NFTA_RULE_CHAIN, rule.chain);
    let list = writer.nest(NFTA_RULE_EXPRESSIONS);
    for one in &rule.expressions {
        let element = writer.nest(NFTA_LIST_ELEM);
        writer.string(NFTA_EXPR_NAME, instruction::name(one));
        let data = writer.nest(NFTA_EXPR_DATA);
        instruction::body(writer, family, one);
        writer.end_nest(data);
        writer.end_nest(element);
    }
    writer.end_nest(list);
}

fn value(writer: &mut Writer, kind: u16, bytes: &[u8]) {
    let nest = writer.nest(kind);
    writer.attribute(NFTA_DATA_VALUE, bytes);
    writer.end_nest(nest);
}

fn verdict(writer: &mut Writer, kind: u16, code: VerdictCode<'_>) {
    let (number, chain) = match code {
        VerdictCode::Accept => (NF_ACCEPT, None),
        VerdictCode::Drop => (NF_DROP, None),
        VerdictCode::Return => (NFT_RETURN, None),
        VerdictCode::Jump(chain) => (NFT_JUMP, Some(chain)),
        VerdictCode::Goto(chain) => (NFT_GOTO, Some(chain)),
    };
    let data = writer.nest(kind);
    let nest = writer.nest(NFTA_DATA_VERDICT);
    writer.be32(NFTA_VERDICT_CODE, number as u32);
    if let Some(chain) = chain {
        writer.string(NFTA_VERDICT_CHAIN, chain);
    }
    writer.end_nest(nest);
    writer.end_nest(data);
}
