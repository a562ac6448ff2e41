//! Hostile and random input for everything that reads from outside: the apiserver, files, the command line, the
//! kernel and its tools; and random cluster states through planning and rendering.
//!
//! A [`Target`] is a plain function over bytes. Three drivers share all of them: libFuzzer (`src/bin/libfuzzer.rs`,
//! run by `scripts/fuzz`), the mutations of [`mutate`], and the inputs kept in `corpus` and `regressions`, both of
//! which `cargo test` runs. Each input is held to the limits in [`limits`].
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test harness may fail loudly")]

pub mod choices;
pub mod kept;
pub mod limits;
pub mod mutate;
pub mod targets;

pub use limits::Limits;
pub use targets::Target;

/// Counts what a target allocates, for every program that links this crate.
#[global_allocator]
static ALLOCATOR: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;
