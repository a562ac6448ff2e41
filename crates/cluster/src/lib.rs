//! Kubernetes objects in, cluster state out.
//!
//! [`objects`] are the shapes on the wire, [`translate`] turns one of them into a domain value,
//! [`ClusterState`] keeps all of them packed and remembers which services changed;
//! [`ClusterPlanner`] plans from it. Sources (the
//! [`manifests`] folder, the [`apiserver`]) speak to it in [`Update`]s. Nothing here knows the kernel.

mod allowance;
pub mod apiserver;
mod backlog;
mod dirty;
mod fault_path;
pub mod inotify;
mod intern;
pub mod manifests;
mod object;
pub mod objects;
mod packed;
mod planner;
mod state;
pub mod timestamp;
pub mod translate;

pub use allowance::{Allowance, Rate, SharedAllowance};
pub use backlog::Backlog;
pub use dirty::{ChangeCount, DirtySet, Trigger};
pub use object::{
    EndpointRecord, Kind, NodeFacts, Object, ObjectChange, ObjectKey, SliceRecord, Update, Value,
};
pub use planner::{ClusterPlanner, observe_node};
pub use state::{ClusterState, Counts};
pub use translate::{Flaws, Invalid, Outcome, Skip, Translated};
