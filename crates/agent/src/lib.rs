//! The `kube-proxy` agent: everything between the command line and the data plane.
//!
//! [`flags`] and a file become a [`config::Configuration`], and that becomes [`Options`]; [`run`] wires a source,
//! the sync loop, the watchers of the kernel and the probe server together. The decisions are in `model`, the
//! kernel work in `dataplane` and `kernel`.

mod addresses;
#[cfg(test)]
mod compatibility;
pub mod config;
mod config_watch;
mod contests;
mod default_mode;
mod duration;
mod events;
mod failures;
pub mod flags;
mod flows;
#[doc(hidden)]
pub mod fuzz;
mod health;
mod http;
mod identity;
mod inbox;
mod lane;
mod leftovers;
mod limits;
pub mod logging;
mod metrics;
mod missed_prefixes;
mod node_setup;
mod options;
mod own_node;
mod planner;
mod profiling;
mod reload;
mod run;
mod source;
mod suggest;
mod sync;
pub mod version;

pub use dataplane::{CleanupError, cleanup};
pub use default_mode::default_mode;
pub use http::BindError;
pub use node_setup::init_only;
pub use options::{ApiserverOptions, DetectLocal, Options, Source};
pub use planner::{ClusterPlanner, observe_node};
pub use run::{StartError, run};
