//! nf_tables: build a [`Batch`], commit it over a [`Connection`], watch for changes of others.

mod batch;
mod connection;
pub(crate) mod decode;
mod describe;
mod encode;
mod error;
mod expression;
mod listing;
mod listing_rule;
pub(crate) mod monitor;
mod object;
mod probe;
mod reason;
pub mod sys;
pub(crate) mod trace;
mod transport;

pub use batch::Batch;
pub use connection::Connection;
pub use error::{CommitError, CommitErrorKind, Error};
pub use expression::{
    Base, CompareOp, CtDirection, CtKey, DynsetOp, Expression, MetaKey, Reg, Reject, VerdictCode,
};
pub use listing::{ListedChain, ListedHook, ListedSet, Listing, ObjectKind};
pub use listing_rule::{Instruction, ListedRule};
pub use monitor::{ChangedTable, Monitor, Notification, Process, Stopper};
pub use object::{Chain, ElementData, Hook, HookKind, Rule, Set, SetFlags, TableFamily, VERDICT};
pub use probe::{OLDEST_KERNEL, ProbeError, connect_if_present, kernel_release, probe};
pub use trace::{Heard, Packet, Step, TraceError, Tracer, Wait, Wanted};
pub use transport::{CounterReading, DumpedElement, Layer, Table, Transport};
