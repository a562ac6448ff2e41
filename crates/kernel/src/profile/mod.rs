//! Where this process spends its time and its memory: call stacks, sampled from inside.
//!
//! [`cpu`] interrupts whichever thread runs and copies its stack; [`heap`] looks at one allocation in many. Both
//! hand out bare addresses. Names, formats and pages are the caller's affair.
//!
//! Stacks are walked by the unwind tables (`.eh_frame`) that every Linux binary carries, so nothing has to be
//! built with frame pointers. In the signal handler nothing is walked: a mistake in a table must not be
//! able to take the process down.

pub mod cpu;
pub mod heap;
mod objects;
mod registers;
mod ring;
mod stack;
mod tables;
mod unwind;

pub use objects::{Object, loaded_objects};

/// Stacks can be walked on this architecture.
pub const SUPPORTED: bool = registers::SUPPORTED;
