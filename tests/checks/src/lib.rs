//! What the checks look at: the packages as cargo sees them, the files of the repository, licence expressions.
//!
//! The checks themselves are in `tests/repository`; run them alone with `make check`.

pub mod files;
pub mod licence;
pub mod markdown;
pub mod packages;

use std::path::Path;

/// The folder that holds the workspace's Cargo.toml.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}
