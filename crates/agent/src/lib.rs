//! The `kube-proxy` agent: everything between the command line and the data plane.
//!
//! [`run`] takes [`config::Options`] and wires a source, the sync loop, the watchers of the kernel and the probe server
//! together. Flags and the file become options in `config`, the decisions are in `model`, the kernel work in `dataplane`
//! and `kernel`.

mod addresses;
#[cfg(test)]
#[path = "../tests/unit/compatibility/mod.rs"]
mod compatibility;
mod config_watch;
mod contests;
mod default_mode;
mod events;
mod explain;
mod failures;
mod flows;
mod health;
mod http;
mod identity;
mod inbox;
mod lane;
mod leftovers;
mod limits;
mod missed_prefixes;
mod node_setup;
mod notices;
mod own_node;
mod pacing;
mod problems;
mod questions;
mod reload;
mod run;
mod source;
mod start_line;
mod sync;
mod trace;

pub use dataplane::{CleanupError, cleanup};
pub use default_mode::default_mode;
pub use http::BindError;
pub use node_setup::init_only;
pub use run::{StartError, run, wait_to_be_terminated};
pub use telemetry::logging;
