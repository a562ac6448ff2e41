//! The text that `iptables-restore` takes, and which service each of its lines is for.

use std::fmt::Write as _;

use kernel::iptables::Table;
use model::ServiceKey;

use super::tree::Chain;

#[derive(Debug, Default)]
pub(super) struct Script {
    text: String,
    lines: usize,
    /// Where the lines of a service begin, or those of none.
    owners: Vec<(usize, Option<ServiceKey>)>,
    /// Tables that it ends; one that it opens twice counts twice.
    pub(super) sections: u64,
    /// Rules written, by table.
    pub(super) written: [usize; 2],
}

impl Script {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Begin a table. Naming a chain makes it or empties it. The names are sorted: the nf_tables variant of the tool
    /// keeps its chains in a sorted list, and searches it from the start for each one that comes out of order.
    pub(super) fn open(&mut self, table: Table, mut chains: Vec<String>) {
        chains.sort_unstable();
        chains.dedup();
        self.line(format_args!("*{}", table.name()));
        for name in &chains {
            self.line(format_args!(":{name} - [0:0]"));
        }
    }

    pub(super) fn chain(&mut self, table: Table, chain: &Chain, owner: Option<&ServiceKey>) {
        if self.owners.last().is_none_or(|(_, last)| last.as_ref() != owner) {
            self.owners.push((self.lines + 1, owner.cloned()));
        }
        self.text.push_str(&chain.text);
        self.lines += chain.rules;
        self.written[table as usize] += chain.rules;
    }

    pub(super) fn insert(&mut self, chain: &str, words: &str) {
        self.line(format_args!("-I {chain}{words}"));
    }

    /// End the table: chains that nothing leads to any more go.
    pub(super) fn close(&mut self, gone: &[String]) {
        self.owners.push((self.lines + 1, None));
        for name in gone {
            self.line(format_args!("-X {name}"));
        }
        self.line(format_args!("COMMIT"));
        self.sections += 1;
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{line}");
        self.lines += 1;
    }

    /// The service that a line is for, counted from 1.
    pub(super) fn owner(&self, line: usize) -> Option<&ServiceKey> {
        let after = self.owners.partition_point(|(first, _)| *first <= line);
        self.owners.get(after.checked_sub(1)?)?.1.as_ref()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/iptables_script.rs"]
mod tests;
