//! What the checks look at: the packages as cargo sees them, the files of the repository, licence expressions.
//!
//! The checks themselves are in `tests/repository`; run them alone with `make check`.

pub mod files;
pub mod licence;
pub mod markdown;
pub mod packages;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The folder that holds the workspace's Cargo.toml.
///
/// Asked for when running: a target folder shared by two copies of the repository keeps what was compiled in.
pub fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let here =
            std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let here = PathBuf::from(here);
        here.ancestors().nth(2).unwrap_or(&here).to_owned()
    });
    &ROOT
}
