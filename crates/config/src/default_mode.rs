//! What an unset mode means. Who asks the node is outside: nothing here does.

use model::Mode;

/// A mode that was not chosen explicitly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultMode {
    pub mode: Mode,
    /// Why this one, for the log: "this kernel has it".
    pub why: String,
}

impl DefaultMode {
    /// What is taken where no node can be asked.
    pub fn nftables() -> DefaultMode {
        DefaultMode { mode: Mode::Nftables, why: "this kernel has it".to_owned() }
    }
}
