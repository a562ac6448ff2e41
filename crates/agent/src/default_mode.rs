//! What an unset mode means on this node: nftables where the kernel has it, else iptables.

use kernel::nft::{self, ProbeError};

use crate::config::{DefaultMode, Mode};

/// Asks the kernel.
pub fn default_mode() -> DefaultMode {
    after(nft::probe(nft::OLDEST_KERNEL))
}

/// Only a kernel that lacks something is a reason: who may not use nf_tables may not use iptables either, and is told so
/// by the mode that is better for him.
fn after(probed: Result<(), ProbeError>) -> DefaultMode {
    match probed {
        Ok(()) => DefaultMode::nftables(),
        Err(error @ (ProbeError::TooOld { .. } | ProbeError::Absent(_))) => {
            DefaultMode { mode: Mode::Iptables, why: error.to_string() }
        }
        Err(error @ (ProbeError::NotPermitted | ProbeError::NoSocket(_) | ProbeError::Failed(_))) => {
            DefaultMode { mode: Mode::Nftables, why: format!("the kernel could not be asked ({error})") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_kernel_without_nftables_means_iptables() {
        assert_eq!(after(Ok(())), DefaultMode::nftables());
        let old = after(Err(ProbeError::TooOld { found: (4, 19), needed: (5, 13) }));
        let why = "the kernel is release 4.19; nftables mode needs 5.13 or later";
        assert_eq!((old.mode, &*old.why), (Mode::Iptables, why));
        let absent = ProbeError::Absent(std::io::Error::from(std::io::ErrorKind::Unsupported));
        assert_eq!(after(Err(absent)).mode, Mode::Iptables);
        let unknown = after(Err(ProbeError::NotPermitted));
        assert_eq!(unknown.mode, Mode::Nftables);
        assert!(
            unknown.why.starts_with("the kernel could not be asked (nf_tables is there, but"),
            "{unknown:?}"
        );
    }
}
