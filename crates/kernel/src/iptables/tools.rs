//! [`Tools`]: one address family's tables by way of the programs.

use std::path::Path;

use super::stamp::Watch;
use super::toolbox::Programs;
use super::{
    ChooseError, Chosen, Saver, Stamp, Table, Tables, Terms, ToolError, Toolbox, Variant, Version, look,
    words,
};

/// One address family's tools of one variant.
///
/// They work on the network namespace of the calling thread, and stamps are of that in which the first was asked for:
/// use them from one thread.
#[derive(Debug)]
pub struct Tools {
    programs: Programs,
    is_ipv6: bool,
    variant: Variant,
    version: Option<Version>,
    random_fully: bool,
    terms: Terms,
    watch: Watch,
}

impl Tools {
    /// The tools of the variant that others on this node use.
    pub fn choose() -> Result<Chosen, ChooseError> {
        Toolbox::default().choose()
    }

    /// Those that are installed, one of each variant, tried or not.
    pub fn installed(is_ipv6: bool) -> Vec<Tools> {
        let toolbox = Toolbox::default();
        let found = toolbox.find(is_ipv6).into_iter();
        found
            .map(|one| {
                Tools::new(one.programs, one.variant, one.version.ok(), is_ipv6, toolbox.terms.clone())
            })
            .collect()
    }

    pub(super) fn new(
        programs: Programs,
        variant: Variant,
        version: Option<Version>,
        is_ipv6: bool,
        terms: Terms,
    ) -> Tools {
        let watch = Watch::new(variant, is_ipv6);
        Tools { programs, is_ipv6, variant, version, random_fully: false, terms, watch }
    }

    /// `None` for a program that did not tell, which is never chosen.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// Look at a chain that every kernel with these tables has, and at what the program can do.
    pub(super) fn try_out(&mut self) -> Result<(), ToolError> {
        let help = self.terms.run(&self.programs.main, &["-t", "nat", "-j", "MASQUERADE", "--help"], "");
        self.random_fully = help.is_ok_and(|help| help.contains("--random-fully"));
        let seconds = self.terms.lock_seconds.to_string();
        let arguments = ["-w", seconds.as_str(), "-t", "nat", "-S", "POSTROUTING"];
        self.terms.run(&self.programs.main, &arguments, "").map(drop)
    }

    /// Every table there is, in the form that [`restore`](Tables::restore) takes.
    pub fn save_all(&self) -> Result<String, ToolError> {
        let tool = &self.programs.save;
        let saved = self.terms.run(tool, &[], "")?;
        let is_unreadable =
            |table: &Table| saved.contains(&format!("# Table `{}' is incompatible", table.name()));
        match Table::BOTH.iter().find(|table| is_unreadable(table)) {
            Some(table) => Err(ToolError::Unreadable { tool: tool.clone(), table: table.name() }),
            None => Ok(saved),
        }
    }
}

fn save(terms: &Terms, tool: &Path, table: Table) -> Result<String, ToolError> {
    let name = table.name();
    let saved = terms.run(tool, &["-t", name], "")?;
    // The program says so in a comment, and ends well.
    match saved.lines().any(|line| line.strip_prefix('*') == Some(name)) {
        true => Ok(saved),
        false => Err(ToolError::Unreadable { tool: tool.to_owned(), table: name }),
    }
}

impl Tables for Tools {
    fn save(&mut self, table: Table) -> Result<String, ToolError> {
        save(&self.terms, &self.programs.save, table)
    }

    fn saver(&self) -> Option<Saver> {
        let (terms, tool) = (self.terms.clone(), self.programs.save.clone());
        Some(Box::new(move |table| save(&terms, &tool, table)))
    }

    fn outline(&mut self, table: Table, rules: &[(&str, &str)]) -> Result<String, ToolError> {
        let chains = look::nft_chains(self.is_ipv6, table.name());
        let mut outline = format!("*{}\n", table.name());
        chains.iter().for_each(|chain| outline.push_str(&format!(":{chain} - [0:0]\n")));
        for (chain, rule) in rules {
            let arguments = ["-t", table.name(), "-C", chain].into_iter().chain(words(rule));
            let arguments: Vec<&str> = arguments.collect();
            // It also fails at a rule of nft that stands before ours: then ours is written once more.
            if self.terms.run(&self.programs.main, &arguments, "").is_ok() {
                outline.push_str(&format!("-A {chain}{rule}\n"));
            }
        }
        outline.push_str("COMMIT\n");
        Ok(outline)
    }

    fn restore(&mut self, script: &str) -> Result<(), ToolError> {
        let seconds = self.terms.lock_seconds.to_string();
        let arguments = ["--noflush", "--counters", "-w", seconds.as_str()];
        self.terms.run(&self.programs.restore, &arguments, script).map(drop)
    }

    fn stamp(&mut self) -> Option<Stamp> {
        self.watch.stamp()
    }

    fn has_random_fully(&self) -> bool {
        self.random_fully
    }
}
