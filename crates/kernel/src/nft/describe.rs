//! Which object of a batch a message is about, in words for a log. Pure.

use super::decode;
use super::sys::*;
use super::{Batch, ElementData};
use crate::netlink::{Attribute, Message, messages};

/// What the kernel refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    /// A phrase such as `adding chain "lb-3"`.
    pub(crate) words: String,
    pub(crate) kind: SubjectKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SubjectKind {
    /// The transaction as a whole.
    Batch,
    Table,
    Chain,
    BaseChain,
    OldChain,
    Set,
    Counter,
    Rule,
    /// One instruction of a rule, by the kernel's name, and the set or chain it refers to.
    Instruction {
        name: String,
        target: Option<String>,
    },
    NewElement {
        goto: Option<String>,
        in_map: bool,
    },
    OldElement,
}

/// The object of the message with this number, narrowed by the attribute at `offset` from its start.
pub(crate) fn subject(batch: &Batch, sequence: u32, offset: Option<usize>) -> Subject {
    let found = messages(batch.bytes()).find(|message| message.sequence == sequence);
    let Some(message) = found.filter(|message| message.kind >> 8 == NFNL_SUBSYS_NFTABLES) else {
        return whole(batch);
    };
    let name = |kind| decode::text(&message, kind).unwrap_or("?");
    let (words, kind) = match message.kind & 0xff {
        NFT_MSG_NEWTABLE => (format!("adding {}", table(batch)), SubjectKind::Table),
        NFT_MSG_DELTABLE => (format!("deleting {}", table(batch)), SubjectKind::Table),
        NFT_MSG_NEWCHAIN => chain(&message),
        NFT_MSG_DELCHAIN => (format!("deleting chain {:?}", name(NFTA_CHAIN_NAME)), SubjectKind::OldChain),
        NFT_MSG_DELRULE => match decode::text(&message, NFTA_RULE_CHAIN) {
            Some(chain) => (format!("deleting the rules of chain {chain:?}"), SubjectKind::OldChain),
            None => (format!("deleting the rules of {}", table(batch)), SubjectKind::Table),
        },
        NFT_MSG_NEWRULE => return rule(batch, &message, offset),
        NFT_MSG_NEWSET => (format!("adding set {:?}", name(NFTA_SET_NAME)), SubjectKind::Set),
        NFT_MSG_DELSET => (format!("deleting set {:?}", name(NFTA_SET_NAME)), SubjectKind::Set),
        NFT_MSG_NEWOBJ => (format!("adding counter {:?}", name(NFTA_OBJ_NAME)), SubjectKind::Counter),
        NFT_MSG_DELOBJ => (format!("deleting counter {:?}", name(NFTA_OBJ_NAME)), SubjectKind::Counter),
        NFT_MSG_NEWSETELEM | NFT_MSG_DELSETELEM | NFT_MSG_DESTROYSETELEM => {
            return element(&message, name(NFTA_SET_ELEM_LIST_SET), offset);
        }
        number => (format!("message {number} to {}", table(batch)), SubjectKind::Batch),
    };
    Subject { words, kind }
}

pub(crate) fn whole(batch: &Batch) -> Subject {
    Subject { words: format!("the transaction on {}", table(batch)), kind: SubjectKind::Batch }
}

fn table(batch: &Batch) -> String {
    format!("table \"{} {}\"", batch.family(), batch.table())
}

fn chain(message: &Message<'_>) -> (String, SubjectKind) {
    let name = decode::text(message, NFTA_CHAIN_NAME).unwrap_or("?");
    let Some(kind) = decode::text(message, NFTA_CHAIN_TYPE) else {
        return (format!("adding chain {name:?}"), SubjectKind::Chain);
    };
    (format!("adding {kind} base chain {name:?}"), SubjectKind::BaseChain)
}

fn rule(batch: &Batch, message: &Message<'_>, offset: Option<usize>) -> Subject {
    let chain = decode::text(message, NFTA_RULE_CHAIN).unwrap_or("?");
    let number = messages(batch.bytes())
        .filter(|other| other.kind == message.kind && other.sequence <= message.sequence)
        .filter(|other| decode::text(other, NFTA_RULE_CHAIN) == Some(chain))
        .count();
    let words = format!("adding rule {number} of chain {chain:?}");
    let list = decode::find(message, NFTA_RULE_EXPRESSIONS);
    let blamed = list.and_then(|list| list.nested().enumerate().find(|(_, one)| holds(message, one, offset)));
    let Some((place, one)) = blamed else { return Subject { words, kind: SubjectKind::Rule } };
    let name = one.nested().find(|part| part.kind == NFTA_EXPR_NAME).and_then(|name| name.text());
    let name = name.unwrap_or("?").to_owned();
    let target = target(&name, &one);
    let words = match &target {
        Some(target) => format!("{words}, instruction {} ({name} {target:?})", place + 1),
        None => format!("{words}, instruction {} ({name})", place + 1),
    };
    Subject { words, kind: SubjectKind::Instruction { name, target } }
}

/// The set an instruction looks into, or the chain it goes to.
fn target(name: &str, instruction: &Attribute<'_>) -> Option<String> {
    let body = instruction.nested().find(|part| part.kind == NFTA_EXPR_DATA)?;
    let text = |kind: u16, within: &Attribute<'_>| {
        within.nested().find(|part| part.kind == kind)?.text().map(str::to_owned)
    };
    match name {
        "lookup" => text(NFTA_LOOKUP_SET, &body),
        "dynset" => text(NFTA_DYNSET_SET_NAME, &body),
        "objref" => text(NFTA_OBJREF_SET_NAME, &body).or_else(|| text(NFTA_OBJREF_IMM_NAME, &body)),
        "immediate" => {
            let data = body.nested().find(|part| part.kind == NFTA_IMMEDIATE_DATA)?;
            let verdict = data.nested().find(|part| part.kind == NFTA_DATA_VERDICT)?;
            text(NFTA_VERDICT_CHAIN, &verdict)
        }
        _ => None,
    }
}

fn element(message: &Message<'_>, set: &str, offset: Option<usize>) -> Subject {
    let adding = message.kind & 0xff == NFT_MSG_NEWSETELEM;
    let (verb, preposition) = if adding { ("adding", "to") } else { ("deleting", "from") };
    let Some(list) = decode::find(message, NFTA_SET_ELEM_LIST_ELEMENTS) else {
        return Subject { words: format!("emptying set {set:?}"), kind: SubjectKind::Set };
    };
    let count = list.nested().count();
    let blamed = list.nested().find(|one| count == 1 || holds(message, one, offset));
    let first = list.nested().next();
    let sample = blamed.or(first).map(|one| decode::element(&one));
    let (goto, in_map) = match sample.map(|sample| sample.data) {
        Some(ElementData::Goto(chain)) if blamed.is_some() => (Some(chain.to_owned()), true),
        Some(ElementData::Goto(_) | ElementData::Value(_) | ElementData::Counter(_)) => (None, true),
        _ => (None, false),
    };
    let kind = if adding { SubjectKind::NewElement { goto, in_map } } else { SubjectKind::OldElement };
    let container = if in_map { "map" } else { "set" };
    // A deletion names no data, so that it does not show whether this is a map.
    let container = if adding { format!("{container} {set:?}") } else { format!("{set:?}") };
    let words = match blamed.and(sample) {
        Some(element) => {
            let label = element.comment.map(|comment| format!(" ({comment})")).unwrap_or_default();
            format!("{verb} element {}{label} {preposition} {container}", words_of_key(element.key))
        }
        None => format!("{verb} one of {count} elements {preposition} {container}"),
    };
    Subject { words, kind }
}

/// Hexadecimal, in the words of four bytes to which every part of a key is padded.
fn words_of_key(key: &[u8]) -> String {
    let word = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    key.chunks(4).map(word).collect::<Vec<_>>().join(" ")
}

/// Whether the attribute at `offset` from the message's header is `part` or lies within it.
fn holds(message: &Message<'_>, part: &Attribute<'_>, offset: Option<usize>) -> bool {
    const MESSAGE_HEADER: usize = 16;
    const ATTRIBUTE_HEADER: usize = 4;
    let value =
        (part.value.as_ptr() as usize).wrapping_sub(message.payload.as_ptr() as usize) + MESSAGE_HEADER;
    let start = value.saturating_sub(ATTRIBUTE_HEADER);
    offset.is_some_and(|offset| (start..value + part.value.len()).contains(&offset))
}
