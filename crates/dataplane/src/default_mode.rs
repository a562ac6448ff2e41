//! The mode if none is set: nftables where the kernel has it, else iptables.

use kernel::nft::{self, ProbeError};

use crate::mode::Mode;
use crate::{iptables, nftables};

/// A mode that was not chosen explicitly, and why it is this one: "this kernel has it".
pub struct DefaultMode {
    pub mode: &'static dyn Mode,
    pub why: String,
}

/// Ask the kernel.
pub fn default_mode() -> DefaultMode {
    after(nft::probe(nft::OLDEST_KERNEL))
}

/// Only a kernel that lacks something is a reason: a process that may not use nf_tables may not use iptables
/// either, and the better mode reports that.
fn after(probed: Result<(), ProbeError>) -> DefaultMode {
    match probed {
        Ok(()) => DefaultMode { mode: &nftables::MODE, why: "this kernel has it".to_owned() },
        Err(error @ (ProbeError::TooOld { .. } | ProbeError::Absent(_))) => {
            DefaultMode { mode: &iptables::MODE, why: error.to_string() }
        }
        Err(error @ (ProbeError::NotPermitted | ProbeError::NoSocket(_) | ProbeError::Failed(_))) => {
            DefaultMode { mode: &nftables::MODE, why: format!("the kernel could not be asked ({error})") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(probed: Result<(), ProbeError>) -> (&'static str, String) {
        let DefaultMode { mode, why } = after(probed);
        (mode.name(), why)
    }

    #[test]
    fn only_a_kernel_without_nftables_means_iptables() {
        assert_eq!(found(Ok(())), ("nftables", "this kernel has it".to_owned()));
        let old = found(Err(ProbeError::TooOld { found: (4, 19), needed: (5, 13) }));
        let why = "the kernel is release 4.19; nftables mode needs 5.13 or later";
        assert_eq!(old, ("iptables", why.to_owned()));
        let absent = ProbeError::Absent(std::io::Error::from(std::io::ErrorKind::Unsupported));
        assert_eq!(found(Err(absent)).0, "iptables");
        let (mode, why) = found(Err(ProbeError::NotPermitted));
        assert_eq!(mode, "nftables");
        assert!(why.starts_with("the kernel could not be asked (nf_tables is there, but"), "{why}");
    }
}
