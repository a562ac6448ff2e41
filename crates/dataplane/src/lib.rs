//! From plans to kernel rules. The [`Reconciler`] decides what to commit and when to start over; a
//! [`Backend`] renders plans for one proxy mode. No decision about packets is made here: see `model`.
//!
//! A mode is one folder that implements [`Mode`], and one line in [`MODES`]: nothing outside knows one from another.

mod backend;
mod boxed;
mod check_pace;
mod default_mode;
mod drift;
#[doc(hidden)]
pub mod fuzz;
mod inspection;
pub mod iptables;
pub mod ipvs;
mod leftovers;
mod localhost;
pub mod metrics;
mod mode;
pub mod nftables;
mod pieces;
mod programmed;
mod reconciler;
mod shortfall;
mod slots;
pub mod userspace;

/// Every mode, with the one that is best where a node has what it needs at the front.
pub static MODES: [&dyn Mode; 4] = [&nftables::MODE, &iptables::MODE, &ipvs::MODE, &userspace::MODE];

pub use backend::{Backend, Committed, Farewell, RuleCount, Setup, SyncError};
pub use check_pace::{CheckPace, Looks};
pub use default_mode::{DefaultMode, default_mode};
pub use drift::{Drift, TellDrift};
pub use inspection::{Difference, Inspected, Inspection, InspectionError, Look, Owner, Pinned};
pub use ipvs::DEVICE as SERVICE_DEVICE;
pub(crate) use ipvs::has_device as has_service_device;
pub use leftovers::{CleanupError, Leftover, Leftovers, Removal, Search, cleanup};
pub use mode::{
    BuildOptions, Holdings, List, Listed, Mode, Prepared, Running, SavedTables, Unavailable, mode,
};
pub use model::Change;
pub use nftables::service_counters::{PortRate, Rates, Traffic};
pub use nftables::{PinSweep, ServicePortName, pins};
pub use programmed::{Programmed, Unserved};
pub use reconciler::{
    Answer, Explained, HEAVIEST_PLANNED, Holder, Inquiry, Phases, Position, Reconciler, Refusing, Synced,
};
pub use shortfall::Shortfall;
pub use table::{ruleset, trace};
