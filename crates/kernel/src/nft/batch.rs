//! [`Batch`]: one transaction on one table, written straight into the bytes the kernel reads.
//!
//! Nothing is collected first: a full load of 10,000 services is one buffer of some megabytes, filled once.
//! How the single objects look on the wire is in `encode`.

use super::encode;
use super::sys::*;
use super::{Chain, ElementData, Rule, Set, TableFamily};
use crate::netlink::{MessageStart, Nest, Writer};

/// A transaction: all of it happens, or none.
///
/// The buffer is complete after every call (it always ends in `BATCH_END`), so that [`bytes`](Batch::bytes)
/// needs no finishing step that could be forgotten.
#[derive(Clone, Debug)]
pub struct Batch {
    family: TableFamily,
    table: String,
    writer: Writer,
    /// Where `BATCH_END` starts; the next message overwrites it.
    end: usize,
    /// The number of the last message; `BATCH_BEGIN` has 1.
    sequence: u32,
    sets: u32,
    elements: Option<ElementList>,
}

/// The element message at the end of the batch, which further elements may join.
#[derive(Clone, Debug)]
struct ElementList {
    kind: u16,
    set: String,
    message: MessageStart,
    nest: Nest,
}

/// A nested attribute holds less than 64 KB; the largest element is far below the rest.
const ELEMENT_LIST_LIMIT: usize = 60 * 1024;

impl Batch {
    pub fn new(family: TableFamily, table: &str) -> Batch {
        let mut writer = Writer::default();
        let begin = writer.begin(NFNL_MSG_BATCH_BEGIN, NLM_F_REQUEST, 1, &encode::batch_header());
        writer.end(begin);
        let end = writer.len();
        let mut batch =
            Batch { family, table: table.to_owned(), writer, end, sequence: 1, sets: 0, elements: None };
        batch.close();
        batch
    }

    pub fn family(&self) -> TableFamily {
        self.family
    }

    pub fn table(&self) -> &str {
        &self.table
    }

    /// Make the table, or do nothing if it is there. `nft` prints the comment, which may be empty.
    pub fn add_table(&mut self, comment: &str) {
        self.message(NFT_MSG_NEWTABLE, NLM_F_CREATE, |writer, _, table| {
            encode::table(writer, table, comment);
        });
    }

    /// Make a table that belongs to the committing connection: nobody else can change it, and the kernel deletes it when
    /// the connection is closed, however its process ends.
    pub fn add_owned_table(&mut self, comment: &str) {
        self.message(NFT_MSG_NEWTABLE, NLM_F_CREATE, |writer, _, table| {
            encode::table(writer, table, comment);
            writer.be32(NFTA_TABLE_FLAGS, NFT_TABLE_F_OWNER);
        });
    }

    /// Delete the table with all it holds; it must be there. To replace a table that may be absent:
    /// `add_table`, `delete_table`, `add_table`.
    pub fn delete_table(&mut self) {
        self.message(NFT_MSG_DELTABLE, 0, |writer, _, table| writer.string(NFTA_TABLE_NAME, table));
    }

    /// Delete the table if it is there.
    pub fn delete_table_if_present(&mut self) {
        self.add_table("");
        self.delete_table();
    }

    pub fn add_chain(&mut self, chain: &Chain<'_>) {
        self.message(NFT_MSG_NEWCHAIN, NLM_F_CREATE, |writer, _, table| encode::chain(writer, table, chain));
    }

    /// Delete a chain with its rules; it must be there, and no rule or element may lead to it any more.
    pub fn delete_chain(&mut self, chain: &str) {
        self.message(NFT_MSG_DELCHAIN, 0, |writer, _, table| {
            writer.string(NFTA_CHAIN_TABLE, table);
            writer.string(NFTA_CHAIN_NAME, chain);
        });
    }

    /// Append a rule to its chain.
    pub fn add_rule(&mut self, rule: &Rule<'_>) {
        self.message(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, |writer, family, table| {
            encode::rule(writer, family, table, rule);
        });
    }

    /// Delete every rule of the table, and leave its chains and sets.
    pub fn flush_rules(&mut self) {
        self.message(NFT_MSG_DELRULE, 0, |writer, _, table| writer.string(NFTA_RULE_TABLE, table));
    }

    /// Delete every rule of a chain, which must be there.
    pub fn flush_chain(&mut self, chain: &str) {
        self.message(NFT_MSG_DELRULE, 0, |writer, _, table| {
            writer.string(NFTA_RULE_TABLE, table);
            writer.string(NFTA_RULE_CHAIN, chain);
        });
    }

    pub fn add_set(&mut self, set: &Set<'_>) {
        self.sets += 1;
        let id = self.sets;
        self.message(NFT_MSG_NEWSET, NLM_F_CREATE, |writer, _, table| encode::set(writer, table, set, id));
    }

    /// Delete a set with its elements; it must be there, and no rule may use it any more.
    pub fn delete_set(&mut self, set: &str) {
        self.message(NFT_MSG_DELSET, 0, |writer, _, table| {
            writer.string(NFTA_SET_TABLE, table);
            writer.string(NFTA_SET_NAME, set);
        });
    }

    /// Make a counter, or do nothing if it is there: what it has counted stays.
    pub fn add_counter(&mut self, name: &str) {
        self.message(NFT_MSG_NEWOBJ, NLM_F_CREATE, |writer, _, table| encode::counter(writer, table, name));
    }

    /// Delete a counter; it must be there, and no element may name it any more.
    pub fn delete_counter(&mut self, name: &str) {
        self.message(NFT_MSG_DELOBJ, 0, |writer, _, table| encode::counter_name(writer, table, name));
    }

    /// Delete every element of the set.
    pub fn flush_set(&mut self, set: &str) {
        self.message(NFT_MSG_DELSETELEM, 0, |writer, _, table| {
            writer.string(NFTA_SET_ELEM_LIST_TABLE, table);
            writer.string(NFTA_SET_ELEM_LIST_SET, set);
        });
    }

    /// Add an element. One that is there with the same data is left alone; with other data the commit fails.
    /// A comment longer than 127 bytes is cut.
    pub fn add_element(&mut self, set: &str, key: &[u8], data: ElementData<'_>, comment: Option<&str>) {
        self.element(NFT_MSG_NEWSETELEM, set, |writer| encode::element(writer, key, data, 0, comment));
    }

    /// Add an element to a set with timeouts: it lives for `lifetime_ms` after each refresh, and ends in
    /// `left_ms` if there is none.
    pub fn add_timed_element(
        &mut self,
        set: &str,
        key: &[u8],
        data: ElementData<'_>,
        lifetime_ms: u64,
        left_ms: u64,
    ) {
        self.element(NFT_MSG_NEWSETELEM, set, |writer| {
            encode::timed_element(writer, key, data, lifetime_ms, left_ms);
        });
    }

    /// Delete an element, which must be there. The kernel finds it by its key alone, in maps too.
    pub fn delete_element(&mut self, set: &str, key: &[u8]) {
        self.element(NFT_MSG_DELSETELEM, set, |writer| {
            encode::element(writer, key, ElementData::None, 0, None);
        });
    }

    /// Add `start` up to, not including, `end` to an interval set; without `end`, up to the last value.
    pub fn add_interval(&mut self, set: &str, start: &[u8], end: Option<&[u8]>) {
        self.interval(NFT_MSG_NEWSETELEM, set, start, end);
    }

    /// Delete an interval, which must be there with just these bounds.
    pub fn delete_interval(&mut self, set: &str, start: &[u8], end: Option<&[u8]>) {
        self.interval(NFT_MSG_DELSETELEM, set, start, end);
    }

    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.sequence == 1
    }

    pub fn len_bytes(&self) -> usize {
        self.writer.len()
    }

    /// The whole datagram, from `BATCH_BEGIN` to `BATCH_END`.
    pub fn bytes(&self) -> &[u8] {
        self.writer.bytes()
    }

    /// Start before end: Linux 5.15 answers EEXIST to the other order.
    fn interval(&mut self, kind: u16, set: &str, start: &[u8], end: Option<&[u8]>) {
        self.element(kind, set, |writer| encode::element(writer, start, ElementData::None, 0, None));
        if let Some(end) = end {
            let flags = NFT_SET_ELEM_INTERVAL_END;
            self.element(kind, set, |writer| encode::element(writer, end, ElementData::None, flags, None));
        }
    }

    fn message(&mut self, kind: u16, flags: u16, body: impl FnOnce(&mut Writer, TableFamily, &str)) {
        self.elements = None;
        let message = self.open(kind, flags);
        body(&mut self.writer, self.family, &self.table);
        self.writer.end(message);
        self.end = self.writer.len();
        self.close();
    }

    /// Put one element into the open list of the same kind and set, or into a new one.
    fn element(&mut self, kind: u16, set: &str, body: impl FnOnce(&mut Writer)) {
        let list = match self.elements.take() {
            Some(list) if list.kind == kind && list.set == set && self.has_room(&list) => {
                self.writer.truncate(self.end);
                list
            }
            _ => self.open_elements(kind, set),
        };
        body(&mut self.writer);
        self.writer.end_nest(list.nest);
        self.writer.end(list.message);
        self.end = self.writer.len();
        self.elements = Some(list);
        self.close();
    }

    fn has_room(&self, list: &ElementList) -> bool {
        self.writer.length_of_nest(list.nest) < ELEMENT_LIST_LIMIT
    }

    fn open_elements(&mut self, kind: u16, set: &str) -> ElementList {
        let flags = if kind == NFT_MSG_NEWSETELEM { NLM_F_CREATE } else { 0 };
        let message = self.open(kind, flags);
        self.writer.string(NFTA_SET_ELEM_LIST_TABLE, &self.table);
        self.writer.string(NFTA_SET_ELEM_LIST_SET, set);
        let nest = self.writer.nest(NFTA_SET_ELEM_LIST_ELEMENTS);
        ElementList { kind, set: set.to_owned(), message, nest }
    }

    /// The first message asks for an acknowledgement: its arrival shows that the kernel took the datagram for
    /// a batch. Without any, a commit answers with silence, and so does a batch too garbled to be read.
    fn open(&mut self, kind: u16, flags: u16) -> MessageStart {
        let flags = if self.is_empty() { flags | NLM_F_ACK } else { flags };
        self.writer.truncate(self.end);
        self.sequence += 1;
        let kind = NFNL_SUBSYS_NFTABLES << 8 | kind;
        self.writer.begin(kind, NLM_F_REQUEST | flags, self.sequence, &encode::header(self.family))
    }

    fn close(&mut self) {
        let header = encode::batch_header();
        let end = self.writer.begin(NFNL_MSG_BATCH_END, NLM_F_REQUEST, self.sequence + 1, &header);
        self.writer.end(end);
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
