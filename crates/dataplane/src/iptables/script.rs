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
mod tests {
    use super::*;

    #[test]
    fn lines_have_owners() {
        let chain = |name: &str, rules: usize| {
            let mut chain = Chain::new(name);
            (0..rules).for_each(|_| chain.rule(format_args!(" -j RETURN")));
            chain
        };
        let (web, dns): (ServiceKey, ServiceKey) = ("a/web".into(), "a/dns".into());
        let mut script = Script::default();
        script.open(Table::Nat, vec!["B".into(), "A".into(), "A".into()]);
        script.chain(Table::Nat, &chain("A", 1), None);
        script.chain(Table::Nat, &chain("B", 2), Some(&web));
        script.chain(Table::Nat, &chain("C", 1), Some(&web));
        script.chain(Table::Nat, &chain("D", 1), Some(&dns));
        script.close(&["E".into()]);
        let text = "*nat\n:A - [0:0]\n:B - [0:0]\n-A A -j RETURN\n-A B -j RETURN\n-A B -j RETURN\n-A C -j RETURN\n\
                    -A D -j RETURN\n-X E\nCOMMIT\n";
        assert_eq!(script.text(), text);
        let owners: Vec<Option<&str>> =
            (0..12).map(|line| script.owner(line).map(|owner| &**owner)).collect();
        let (web, dns, none) = (Some("a/web"), Some("a/dns"), None);
        assert_eq!(owners, [none, none, none, none, none, web, web, web, dns, none, none, none]);
        assert_eq!(script.written, [0, 5]);
    }
}
