//! iptables: the tools, run as programs, because legacy tables have no interface that other programs could use safely.

mod choose;
mod error;
pub(crate) mod judge;
mod legacy;
mod look;
mod missing;
mod run;
mod stamp;
mod toolbox;
mod tools;
pub(crate) mod version;
mod words;

pub use choose::{Chosen, Why};
pub use error::ToolError;
pub use legacy::legacy_has_chain;
pub use look::nft_chains;
pub use missing::{ChooseError, Missing};
pub use toolbox::{Terms, Toolbox};
pub use tools::Tools;
pub use version::{Variant, Version};
pub use words::{target, words};

/// The tables that rules of services live in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    Filter,
    Nat,
}

impl Table {
    pub const BOTH: [Table; 2] = [Table::Filter, Table::Nat];

    pub const fn name(self) -> &'static str {
        match self {
            Table::Filter => "filter",
            Table::Nat => "nat",
        }
    }
}

/// A changed stamp means that another process may have changed a table in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(pub [u64; 4]);

/// See [`Tables::saver`].
pub type Saver = Box<dyn Fn(Table) -> Result<String, ToolError> + Send>;

/// One address family's tables, real or simulated.
pub trait Tables {
    /// A table in the form that `iptables-save -t` prints and [`restore`](Tables::restore) takes.
    fn save(&mut self, table: Table) -> Result<String, ToolError>;

    /// Saves tables as [`save`](Tables::save) does, on any thread; `None` where that takes no time.
    fn saver(&self) -> Option<Saver> {
        None
    }

    /// What is known of a table that is [unreadable](ToolError::Unreadable), in the same form: its chains, and those
    /// of the given rules, each a chain and what follows its name, that it holds.
    fn outline(&mut self, table: Table, rules: &[(&str, &str)]) -> Result<String, ToolError>;

    /// Carry out a script, each table of it wholly or not at all; what it does not name stays.
    fn restore(&mut self, script: &str) -> Result<(), ToolError>;

    /// Costs microseconds; `None` if it cannot be had.
    fn stamp(&mut self) -> Option<Stamp>;

    /// Whether `MASQUERADE --random-fully` is known.
    fn has_random_fully(&self) -> bool;

    /// Whether rules may use a match, tried with this rule as the only one in that chain of filter: many matches are modules
    /// of their own, and without one no table that uses it could be written. The chain stays, and the rule in it.
    fn try_rule(&mut self, chain: &str, rule: Option<&str>) -> Result<(), ToolError> {
        let rule = rule.map(|rule| format!("-A {chain} {rule}\n")).unwrap_or_default();
        self.restore(&format!("*filter\n:{chain} - [0:0]\n{rule}COMMIT\n"))
    }
}
