//! What an unset mode means on this node: nftables where the kernel has it, else iptables.

use kernel::nft::{self, ProbeError};

use super::choice::Mode;
use crate::run::OLDEST_KERNEL;

/// A mode that nobody chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DefaultMode {
    pub(crate) mode: Mode,
    /// Why this one, for whoever wonders: "this kernel has it".
    pub(crate) why: String,
}

impl DefaultMode {
    pub(crate) fn nftables() -> DefaultMode {
        DefaultMode { mode: Mode::Nftables, why: "this kernel has it".to_owned() }
    }

    /// Asks the kernel.
    pub(crate) fn of_this_node() -> DefaultMode {
        DefaultMode::after(nft::probe(OLDEST_KERNEL))
    }

    /// Only a kernel that lacks something is a reason: who may not use nf_tables may not use iptables either, and
    /// is told so by the mode that is better for him.
    fn after(probed: Result<(), ProbeError>) -> DefaultMode {
        match probed {
            Err(error @ (ProbeError::TooOld { .. } | ProbeError::Absent(_))) => {
                DefaultMode { mode: Mode::Iptables, why: error.to_string() }
            }
            Ok(()) | Err(ProbeError::NotPermitted | ProbeError::Failed(_)) => DefaultMode::nftables(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_kernel_without_nftables_means_iptables() {
        assert_eq!(DefaultMode::after(Ok(())), DefaultMode::nftables());
        assert_eq!(DefaultMode::after(Err(ProbeError::NotPermitted)), DefaultMode::nftables());
        let old = DefaultMode::after(Err(ProbeError::TooOld { found: (4, 19), needed: (5, 13) }));
        let why = "the kernel is release 4.19; nftables mode needs 5.13 or later";
        assert_eq!((old.mode, &*old.why), (Mode::Iptables, why));
        let absent = ProbeError::Absent(std::io::Error::from(std::io::ErrorKind::Unsupported));
        assert_eq!(DefaultMode::after(Err(absent)).mode, Mode::Iptables);
    }
}
