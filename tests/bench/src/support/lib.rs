//! What the benchmarks share: clocks and counters, the machine they ran on, whether they may run, the variants of
//! the iptables tools, tables of text.
//!
//! Nothing here knows what is measured.

pub mod gauge;
pub mod machine;
pub mod privilege;
pub mod table;
pub mod variant;
