//! Reading the kernel's answers: acknowledgements, tables, sets, elements. Pure.

use super::sys::*;
use super::{CounterReading, DumpedElement, ElementData, Table};
use crate::netlink::{Attribute, Message, attributes};

/// What the kernel answers to one message: done (`errno` 0) or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Of the message answered.
    pub(crate) sequence: u32,
    pub(crate) errno: i32,
    /// Which attribute of the message is to blame, counted from its `nlmsghdr`.
    pub(crate) offset: Option<usize>,
    /// The kernel's own words, if it has any.
    pub(crate) text: Option<String>,
}

const ERROR_HEADER: usize = 4 + 16;

/// The answer in an `NLMSG_ERROR` (or the error in an `NLMSG_DONE`, which ends a dump).
pub(crate) fn answer(message: &Message<'_>) -> Option<Answer> {
    if message.kind != NLMSG_ERROR && message.kind != NLMSG_DONE {
        return None;
    }
    let number = message.payload.first_chunk::<4>().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
    let mut answer =
        Answer { sequence: message.sequence, errno: number.saturating_neg(), offset: None, text: None };
    let described = NLM_F_CAPPED | NLM_F_ACK_TLVS;
    if message.kind == NLMSG_ERROR && message.flags & described == described {
        for attribute in attributes(message.payload.get(ERROR_HEADER..).unwrap_or_default()) {
            match attribute.kind {
                NLMSGERR_ATTR_MSG => answer.text = attribute.text().map(str::to_owned),
                NLMSGERR_ATTR_OFFS => answer.offset = attribute.u32().map(|offset| offset as usize),
                _ => {}
            }
        }
    }
    Some(answer)
}

/// The attributes behind `nfgenmsg`.
pub(crate) fn body<'a>(message: &Message<'a>) -> impl Iterator<Item = Attribute<'a>> + use<'a> {
    attributes(message.payload.get(4..).unwrap_or_default())
}

pub(crate) fn find<'a>(message: &Message<'a>, kind: u16) -> Option<Attribute<'a>> {
    body(message).find(|attribute| attribute.kind == kind)
}

pub(crate) fn text<'a>(message: &Message<'a>, kind: u16) -> Option<&'a str> {
    find(message, kind)?.text()
}

pub(crate) fn table(message: &Message<'_>) -> Option<Table> {
    let name = text(message, NFTA_TABLE_NAME)?.to_owned();
    let comment = find(message, NFTA_TABLE_USERDATA).and_then(|data| comment(data.value));
    Some(Table { name, comment: comment.unwrap_or_default().to_owned() })
}

/// The counter of a `NEWOBJ` message of a dump, if it is of this table.
pub(crate) fn counter<'a>(message: &Message<'a>, table: &str) -> Option<CounterReading<'a>> {
    if text(message, NFTA_OBJ_TABLE)? != table || find(message, NFTA_OBJ_TYPE)?.be32()? != NFT_OBJECT_COUNTER
    {
        return None;
    }
    let data = find(message, NFTA_OBJ_DATA)?;
    let number = |kind| data.nested().find(|part| part.kind == kind).and_then(|part| part.be64());
    Some(CounterReading {
        name: text(message, NFTA_OBJ_NAME)?,
        packets: number(NFTA_COUNTER_PACKETS)?,
        bytes: number(NFTA_COUNTER_BYTES)?,
    })
}

/// The handle of a rule of this table, and the counter that it counts in by name, if it does.
pub(crate) fn rule(message: &Message<'_>, table: &str) -> Option<(u64, Option<String>)> {
    if text(message, NFTA_RULE_TABLE)? != table {
        return None;
    }
    let handle = find(message, NFTA_RULE_HANDLE)?.be64()?;
    let mut expressions = find(message, NFTA_RULE_EXPRESSIONS)?.nested();
    Some((handle, expressions.find_map(|one| named_counter(&one))))
}

fn named_counter(expression: &Attribute<'_>) -> Option<String> {
    let mut name = None;
    let mut data = None;
    for part in expression.nested() {
        match part.kind {
            NFTA_EXPR_NAME => name = part.text(),
            NFTA_EXPR_DATA => data = Some(part),
            _ => {}
        }
    }
    let data = data.filter(|_| name == Some("objref"))?;
    let counter = data.nested().find(|part| part.kind == NFTA_OBJREF_IMM_NAME)?;
    counter.text().map(str::to_owned)
}

/// The comment among nft's user data: entries of type, length, value; type 0 is the comment.
pub(crate) fn comment(mut data: &[u8]) -> Option<&str> {
    while let [kind, length, rest @ ..] = data {
        let value = rest.get(..usize::from(*length))?;
        if *kind == 0 {
            return Attribute { kind: 0, value }.text();
        }
        data = rest.get(usize::from(*length)..)?;
    }
    None
}

/// Whether nft's user data of a set has a `typeof` declaration of its key.
pub(crate) fn has_typeof(mut data: &[u8]) -> bool {
    const KEY_TYPEOF: u8 = 3;
    while let [kind, length, rest @ ..] = data {
        if *kind == KEY_TYPEOF {
            return true;
        }
        data = rest.get(usize::from(*length)..).unwrap_or_default();
    }
    false
}

/// The elements of a `NEWSETELEM` message, as in dumps and batches.
pub(crate) fn elements<'a>(message: &Message<'a>) -> impl Iterator<Item = DumpedElement<'a>> + use<'a> {
    find(message, NFTA_SET_ELEM_LIST_ELEMENTS)
        .into_iter()
        .flat_map(|list| list.nested())
        .map(|one| element(&one))
}

pub(crate) fn element<'a>(attribute: &Attribute<'a>) -> DumpedElement<'a> {
    let mut element = DumpedElement {
        key: &[],
        data: ElementData::None,
        interval_end: false,
        timeout_ms: None,
        expires_ms: None,
        comment: None,
    };
    for part in attribute.nested() {
        match part.kind {
            NFTA_SET_ELEM_KEY => element.key = value(&part).unwrap_or_default(),
            NFTA_SET_ELEM_DATA => element.data = element_data(&part),
            NFTA_SET_ELEM_OBJREF => {
                element.data = part.text().map_or(ElementData::None, ElementData::Counter)
            }
            NFTA_SET_ELEM_FLAGS => {
                element.interval_end =
                    part.be32().is_some_and(|flags| flags & NFT_SET_ELEM_INTERVAL_END != 0);
            }
            NFTA_SET_ELEM_TIMEOUT => element.timeout_ms = part.be64(),
            NFTA_SET_ELEM_EXPIRATION => element.expires_ms = part.be64(),
            NFTA_SET_ELEM_USERDATA => element.comment = comment(part.value),
            _ => {}
        }
    }
    element
}

pub(crate) fn value<'a>(data: &Attribute<'a>) -> Option<&'a [u8]> {
    data.nested().find(|part| part.kind == NFTA_DATA_VALUE).map(|part| part.value)
}

fn element_data<'a>(data: &Attribute<'a>) -> ElementData<'a> {
    if let Some(bytes) = value(data) {
        return ElementData::Value(bytes);
    }
    match data.nested().find(|part| part.kind == NFTA_DATA_VERDICT).and_then(|verdict| goto(&verdict)) {
        Some(chain) => ElementData::Goto(chain),
        None => ElementData::None,
    }
}

fn goto<'a>(verdict: &Attribute<'a>) -> Option<&'a str> {
    let code = verdict.nested().find(|part| part.kind == NFTA_VERDICT_CODE)?.be32()?;
    let chain = verdict.nested().find(|part| part.kind == NFTA_VERDICT_CHAIN)?.text()?;
    (code as i32 == NFT_GOTO).then_some(chain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::messages;
    use crate::nft::{Batch, TableFamily};

    /// Read everything there is to read; returns how much was found.
    fn read(bytes: &[u8]) -> usize {
        messages(bytes)
            .map(|message| {
                let found = usize::from(answer(&message).is_some()) + usize::from(table(&message).is_some());
                found + elements(&message).map(|one| one.key.len()).sum::<usize>()
            })
            .sum()
    }

    #[test]
    fn cut_and_garbled_messages_are_read_without_panic() {
        let mut batch = Batch::new(TableFamily::Ip, "table");
        batch.add_table("comment");
        batch.add_element("map", &[1; 4], ElementData::Goto("chain"), Some("comment"));
        let bytes = batch.bytes();
        assert!(read(bytes) > 4);
        for cut in 0..bytes.len() {
            read(bytes.get(..cut).unwrap());
        }
        for place in 0..bytes.len() {
            for wrong in [0, 1, 0x7f, 0xff] {
                let mut bytes = bytes.to_vec();
                bytes[place] = wrong;
                read(&bytes);
            }
        }
    }

    #[test]
    fn an_explained_error_has_offset_and_text() {
        let mut payload = (-libc::EEXIST).to_ne_bytes().to_vec();
        payload.extend([0; 16]);
        payload.extend([8u16, NLMSGERR_ATTR_OFFS].map(u16::to_ne_bytes).concat());
        payload.extend(44u32.to_ne_bytes());
        payload.extend([7u16, NLMSGERR_ATTR_MSG].map(u16::to_ne_bytes).concat());
        payload.extend(*b"no\0\0");
        let flags = NLM_F_CAPPED | NLM_F_ACK_TLVS;
        let message = Message { kind: NLMSG_ERROR, flags, sequence: 7, port: 0, payload: &payload };
        let expected =
            Answer { sequence: 7, errno: libc::EEXIST, offset: Some(44), text: Some("no".to_owned()) };
        assert_eq!(answer(&message), Some(expected));
    }
}
