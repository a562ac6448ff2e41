//! Flows the kernel has recorded (conntrack), listed and forgotten over ctnetlink.
//!
//! A table can hold a million flows: everything here streams and holds a bounded number at a time. Which
//! flows are stale is not decided here.

mod delete;
mod dump;
mod error;
mod find;
mod flow;
mod insert;
mod sys;

pub use delete::Deleted;
pub use dump::{Conntrack, Filter, Listed};
pub use error::ConntrackError;
pub use flow::{Flow, Tuple, status};
