//! Links, addresses, routes and policy rules of one network namespace over rtnetlink.
//!
//! [`Links`] talks to the namespace its thread was in when it was opened. What the agent needs of a node
//! (its addresses, and when they change) and what a sandbox needs to be built; not a full rtnetlink.

pub(crate) mod address;
mod error;
pub(crate) mod links;
pub(crate) mod local;
mod monitor;
mod ready;
mod request;
mod route;
mod routing;
pub(crate) mod rule;
mod sys;

pub use address::Address;
pub use error::LinkError;
pub use links::{Link, Veth};
pub use local::{LocalRoute, TABLE_LOCAL};
pub use monitor::{AddressMonitor, Wake};
pub use request::Links;
pub use route::Route;
pub use routing::RoutingMonitor;
pub use rule::{Action, Mark, Rule};
