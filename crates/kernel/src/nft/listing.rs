//! A table as a whole, read back for people: what `nft list table` asks the kernel for.
//!
//! Elements of sets are left out; [`Transport::dump_elements`](super::Transport::dump_elements) reads those.

use super::connection::Reading;
use super::listing_rule::{self, ListedRule};
use super::sys::*;
use super::{Connection, Error, TableFamily, decode, encode};
use crate::netlink::{Message, Writer};

/// Something in a table. In a listing, what others name comes before them: counters, sets, chains, rules.
#[derive(Clone, Debug, PartialEq)]
pub enum Listing<'a> {
    Table { handle: u64, comment: &'a str },
    Counter { name: &'a str, handle: u64, packets: u64, bytes: u64 },
    Set(ListedSet<'a>),
    Chain(ListedChain<'a>),
    Rule(ListedRule<'a>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSet<'a> {
    pub name: &'a str,
    pub handle: u64,
    /// nft's type number; see [`Set`](super::Set).
    pub key_type: u32,
    pub key_length: u32,
    /// Of maps to values and verdicts.
    pub data_type: Option<u32>,
    /// Of maps to objects.
    pub object: Option<ObjectKind>,
    /// `NFT_SET_*`.
    pub flags: u32,
    /// 0 = unlimited.
    pub size: u32,
    pub timeout_ms: Option<u64>,
    /// Whether the nft tool finds a `typeof` declaration beside it.
    pub has_declaration: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    Counter,
    Other(u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedChain<'a> {
    pub name: &'a str,
    pub handle: u64,
    pub hook: Option<ListedHook<'a>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedHook<'a> {
    pub kind: &'a str,
    /// `NF_INET_*`.
    pub number: u32,
    pub priority: i32,
    pub drops: bool,
}

impl Connection {
    /// Hand everything in a table to `each`, but for the elements of sets. Whether nobody changed it meanwhile; a table that
    /// is not there has nothing.
    pub fn list_table(
        &mut self,
        family: TableFamily,
        table: &str,
        each: &mut dyn FnMut(Listing<'_>),
    ) -> Result<bool, Error> {
        let number = encode::family_number(family);
        // The kernel lists the tables and chains of all, whatever table the question names.
        let name = |kind: u16| move |writer: &mut Writer| writer.string(kind, table);
        let mut is_whole = true;
        let parts: [(u16, u16, Read); 5] = [
            (NFT_MSG_GETTABLE, NFTA_TABLE_NAME, table_of),
            (NFT_MSG_GETOBJ, NFTA_OBJ_TABLE, counter_of),
            (NFT_MSG_GETSET, NFTA_SET_TABLE, set_of),
            (NFT_MSG_GETCHAIN, NFTA_CHAIN_TABLE, chain_of),
            (NFT_MSG_GETRULE, NFTA_RULE_TABLE, rule_of),
        ];
        for (question, table_attribute, read) in parts {
            let reading = self.ask(question, NLM_F_DUMP, number, name(table_attribute), |message| {
                if decode::text(message, table_attribute) == Some(table) {
                    read(message).into_iter().for_each(&mut *each);
                }
            });
            match reading {
                Ok(reading) => is_whole &= reading == Reading::Whole,
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                Err(error) => return Err(Error::asking(&format!("table {table:?}"), error)),
            }
        }
        Ok(is_whole)
    }
}

type Read = for<'a> fn(&Message<'a>) -> Option<Listing<'a>>;

fn number(message: &Message<'_>, kind: u16) -> Option<u32> {
    decode::find(message, kind)?.be32()
}

fn handle(message: &Message<'_>, kind: u16) -> u64 {
    decode::find(message, kind).and_then(|handle| handle.be64()).unwrap_or_default()
}

fn table_of<'a>(message: &Message<'a>) -> Option<Listing<'a>> {
    let data = decode::find(message, NFTA_TABLE_USERDATA);
    let comment = data.and_then(|data| decode::comment(data.value)).unwrap_or_default();
    Some(Listing::Table { handle: handle(message, NFTA_TABLE_HANDLE), comment })
}

fn counter_of<'a>(message: &Message<'a>) -> Option<Listing<'a>> {
    let table = decode::text(message, NFTA_OBJ_TABLE)?;
    let found = decode::counter(message, table)?;
    let handle = handle(message, NFTA_OBJ_HANDLE);
    Some(Listing::Counter { name: found.name, handle, packets: found.packets, bytes: found.bytes })
}

fn set_of<'a>(message: &Message<'a>) -> Option<Listing<'a>> {
    let flags = number(message, NFTA_SET_FLAGS).unwrap_or_default();
    let description = decode::find(message, NFTA_SET_DESC);
    let size = description.and_then(|all| all.nested().find(|part| part.kind == NFTA_SET_DESC_SIZE));
    let object = number(message, NFTA_SET_OBJ_TYPE).map(|kind| match kind {
        NFT_OBJECT_COUNTER => ObjectKind::Counter,
        other => ObjectKind::Other(other),
    });
    Some(Listing::Set(ListedSet {
        name: decode::text(message, NFTA_SET_NAME)?,
        handle: handle(message, NFTA_SET_HANDLE),
        key_type: number(message, NFTA_SET_KEY_TYPE).unwrap_or_default(),
        key_length: number(message, NFTA_SET_KEY_LEN).unwrap_or_default(),
        data_type: number(message, NFTA_SET_DATA_TYPE).filter(|_| flags & NFT_SET_MAP != 0),
        object: object.filter(|_| flags & NFT_SET_OBJECT != 0),
        flags,
        size: size.and_then(|size| size.be32()).unwrap_or_default(),
        timeout_ms: decode::find(message, NFTA_SET_TIMEOUT).and_then(|timeout| timeout.be64()),
        has_declaration: decode::find(message, NFTA_SET_USERDATA)
            .is_some_and(|data| decode::has_typeof(data.value)),
    }))
}

fn chain_of<'a>(message: &Message<'a>) -> Option<Listing<'a>> {
    let hook = decode::find(message, NFTA_CHAIN_HOOK).map(|hook| {
        let part = |kind| hook.nested().find(|part| part.kind == kind).and_then(|part| part.be32());
        ListedHook {
            kind: decode::text(message, NFTA_CHAIN_TYPE).unwrap_or_default(),
            number: part(NFTA_HOOK_HOOKNUM).unwrap_or_default(),
            priority: part(NFTA_HOOK_PRIORITY).unwrap_or_default() as i32,
            drops: number(message, NFTA_CHAIN_POLICY) == Some(NF_DROP as u32),
        }
    });
    let name = decode::text(message, NFTA_CHAIN_NAME)?;
    Some(Listing::Chain(ListedChain { name, handle: handle(message, NFTA_CHAIN_HANDLE), hook }))
}

fn rule_of<'a>(message: &Message<'a>) -> Option<Listing<'a>> {
    let chain = decode::text(message, NFTA_RULE_CHAIN)?;
    let list = decode::find(message, NFTA_RULE_EXPRESSIONS);
    let instructions =
        list.into_iter().flat_map(|list| list.nested()).map(|one| listing_rule::instruction(&one));
    let handle = handle(message, NFTA_RULE_HANDLE);
    Some(Listing::Rule(ListedRule { chain, handle, instructions: instructions.collect() }))
}
