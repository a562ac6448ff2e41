//! IPVS: virtual servers, each an address and port whose connections the kernel spreads over destinations.
//!
//! A [`Batch`] gathers commands, a [`Connection`] sends them and reads what is there. [`Transport`] is the seam at which
//! a simulated IPVS can stand in. Spoken over generic netlink; no `ipvsadm` is needed. Destinations are always reached
//! by rewriting the destination address (NAT).
//!
//! IPVS has no transactions and notifies nobody of changes: whatever else edits it is found only by listing.

mod batch;
mod connection;
pub(crate) mod decode;
mod encode;
mod error;
mod server;
mod sys;
#[cfg(test)]
mod tests;
mod transport;

pub use batch::{Batch, Command, Failure};
pub use connection::Connection;
pub use error::Error;
pub use server::{
    Destination, DumpedDestination, DumpedServer, Info, Protocol, Settings, Statistics, Timeouts,
    VirtualServer, flags,
};
pub use transport::Transport;
