//! A small cluster's network on one machine: a node with pods, a second node, a client outside.
//!
//! ```text
//!  client ──── 192.168.60.0/24 ──── node ──── 192.168.50.0/24 ──── remote
//!  .9 .10                        .2  │  .2                      .3   │
//!                                 pod-a pod-b ...                 pod-c ...
//!                                 10.244.1.0/24                   10.244.2.0/24
//! ```
//! Each is a network namespace held by file descriptor: dropping the [`Sandbox`] removes everything, and so
//! does the death of the process. Everything is routed and speaks IPv4 and IPv6. Client and remote node send
//! all they do not know to the node, so that traffic to service addresses, external IPs and load-balancer IPs
//! enters there. [`server`] answers with its name; [`probe`] asks and tells who answered and whom it saw.
//!
//! Nothing here knows Kubernetes or programs any rule: that is what the sandbox is there to show.

pub mod address;
mod error;
mod pod;
pub mod probe;
pub mod server;
mod wiring;
mod world;

pub use error::SandboxError;
pub use kernel::netns::Namespace;
pub use pod::{Place, Pod};
pub use probe::Outcome;
pub use server::Server;
pub use world::{Sandbox, SandboxSpec};
