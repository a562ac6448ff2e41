//! `--cleanup`: the node as if this program had never run. Connections that are open keep their translation.

use std::fmt;
use std::io;

use dataplane::nftables::Nftables;
use dataplane::{Backend, SyncError};
use kernel::nft::Connection;
use model::{Family, LocalDetector};

/// Why rules may be left.
#[derive(Debug)]
pub enum CleanupError {
    Socket(io::Error),
    Rules { family: Family, source: SyncError },
}

impl fmt::Display for CleanupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CleanupError::Socket(source) => write!(f, "cannot open a netlink socket: {source}"),
            CleanupError::Rules { family, source } => {
                write!(f, "the {family} rules are still there: {source}")
            }
        }
    }
}

impl std::error::Error for CleanupError {}

/// Remove the rules of both families.
pub fn cleanup() -> Result<(), CleanupError> {
    let connection = Connection::open().map_err(CleanupError::Socket)?;
    // Neither a detector nor a mark matters to a table that goes as a whole.
    let mut backend = Nftables::new(connection, &LocalDetector::None, 0);
    let mut outcome = Ok(());
    for family in Family::BOTH {
        if let Err(source) = backend.cleanup(family) {
            outcome = outcome.and(Err(CleanupError::Rules { family, source }));
        }
    }
    outcome
}
