//! What an unset mode means. Who asks the node is outside: nothing here does.

use super::choice::Mode;

/// A mode that nobody chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultMode {
    pub(crate) mode: Mode,
    /// Why this one, for whoever wonders: "this kernel has it".
    pub(crate) why: String,
}

impl DefaultMode {
    pub(crate) fn nftables() -> DefaultMode {
        DefaultMode { mode: Mode::Nftables, why: "this kernel has it".to_owned() }
    }
}
