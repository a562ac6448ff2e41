//! Writes what a release holds besides the program: OCI archives without Docker or a daemon, an SBOM, the licences.
//!
//! Everything is a function of its input: entries are sorted, times are given, nothing is asked of the machine. The
//! same files make the same digest. Which files go into an image is decided in `scripts/image`.

pub mod licences;
pub mod linked;
pub mod oci;
pub mod sbom;
pub mod tar;

/// What went wrong, for the person who runs `make image`.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
