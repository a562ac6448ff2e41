//! Health checks of services (`healthCheckNodePort`): load balancers ask each node whether it has endpoints of a
//! service whose external traffic stays on the node.
//!
//! The sync thread reports what changed ([`CheckReporter`]); the event loop opens and closes the ports ([`serve`]).
//! A service without such a port costs nothing on either side.

mod body;
mod count;
mod ports;
mod report;

use std::net::IpAddr;

use model::{Family, ServiceKey};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub(super) use ports::{Surroundings, serve};
pub(crate) use report::CheckReporter;

/// What a service wants to be asked at, and the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Check {
    port: u16,
    /// Ready endpoints on this node.
    endpoints: usize,
}

/// What the event loop has to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CheckUpdate {
    /// `None`: it is not asked for any more.
    Check(Family, ServiceKey, Option<Check>),
    /// Where the ports of a family are opened.
    Addresses(Family, Vec<IpAddr>),
}

type Sender = UnboundedSender<Vec<CheckUpdate>>;
pub(super) type Receiver = UnboundedReceiver<Vec<CheckUpdate>>;

/// One end for the sync thread, one for the event loop.
pub(super) fn channel() -> (CheckReporter, Receiver) {
    let (sender, receiver) = unbounded_channel();
    (CheckReporter::new(sender), receiver)
}
