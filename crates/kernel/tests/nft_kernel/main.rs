//! nf_tables against the running kernel, each test in a network namespace of its own.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod commit;
mod counters;
mod dump;
mod golden;
mod instructions;
mod layout;
mod monitor;
mod refused;
mod space;
mod trace;
