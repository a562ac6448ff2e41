//! What the kernel holds for one address and port, read back and compared with what was written there.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use model::{Address, Destination, NodePlan, PortPlan, Protocol, ServiceKey};

/// An address and port that is to be looked at.
#[derive(Clone, Copy, Debug)]
pub struct Inspected<'a> {
    pub protocol: Protocol,
    /// What a client calls; at a node port, the address of the node.
    pub to: SocketAddr,
    /// The service that has it, as it was last written.
    pub owner: Option<Owner<'a>>,
    /// It is a cluster IP that a service has.
    pub is_live: bool,
    /// Whose pin is asked for.
    pub client: Option<IpAddr>,
    /// This node, as it was last written.
    pub node: &'a NodePlan,
}

#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    pub service: &'a ServiceKey,
    pub port: &'a PortPlan,
    pub destination: &'a Destination,
}

impl Inspected<'_> {
    /// What the rules look it up by until somebody has it: the address, then the node port where these are served.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Address> {
        let vip = Address::Vip(self.to.ip(), self.to.port());
        let node_port = Address::NodePort(self.to.port());
        let is_found_first = self.owner.is_some_and(|owner| owner.destination.at == vip);
        let is_looked_up = self.node.serves_node_ports(self.to.ip()) && !is_found_first;
        std::iter::once(vip).chain(is_looked_up.then_some(node_port))
    }
}

/// Differences that are described: where everything is gone, each place is one.
const MOST_DIFFERENCES: usize = 1000;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// How many things were compared. None is a mode that cannot be read back.
    pub compared: usize,
    /// There was more than is read for a question.
    pub is_partial: bool,
    /// The first [`MOST_DIFFERENCES`] of them.
    pub differences: Vec<Difference>,
    pub difference_count: usize,
    /// What differed, but was written while it was read: it may be as it should by now, and is not among those compared.
    pub unsettled: usize,
    pub pin: Option<Pinned>,
}

/// Something that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Whose it is, if it is anybody's.
    pub service: Option<ServiceKey>,
    /// In the words of the mode, such as a set and a key.
    pub place: String,
    pub expected: String,
    pub found: String,
}

/// Where a client is pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pinned {
    pub to: SocketAddr,
    /// How long it is, unless it is used; `None` if the kernel does not say.
    pub left: Option<Duration>,
}

/// Why nothing was found.
pub type InspectionError = Box<dyn Error + Send + Sync>;

/// A look at the kernel that was made, or one that takes its time and is made by another thread.
pub enum Look {
    Done(Result<Inspection, InspectionError>),
    Later(Box<dyn FnOnce() -> Result<Inspection, InspectionError> + Send>),
}

impl Look {
    /// How many things were compared, as far as that is known.
    pub(crate) fn compared(&self) -> usize {
        match self {
            Look::Done(Ok(found)) => found.compared,
            Look::Done(Err(_)) | Look::Later(_) => 0,
        }
    }

    /// Take the time.
    pub fn finish(self) -> Result<Inspection, InspectionError> {
        match self {
            Look::Done(outcome) => outcome,
            Look::Later(look) => look(),
        }
    }
}

impl std::fmt::Debug for Look {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Look::Done(outcome) => f.debug_tuple("Done").field(outcome).finish(),
            Look::Later(_) => f.write_str("Later"),
        }
    }
}

impl Inspection {
    /// Take in what was found elsewhere.
    pub fn add(&mut self, other: Inspection) {
        self.compared += other.compared;
        self.is_partial |= other.is_partial;
        self.difference_count += other.difference_count;
        self.unsettled += other.unsettled;
        let room = MOST_DIFFERENCES.saturating_sub(self.differences.len());
        self.differences.extend(other.differences.into_iter().take(room));
    }

    /// Note one thing, by words that are equal where the kernel is as it should be.
    pub(crate) fn compare(
        &mut self,
        place: impl FnOnce() -> String,
        expected: Option<String>,
        found: Option<String>,
    ) {
        self.compared += 1;
        let is_different = expected != found;
        self.difference_count += usize::from(is_different);
        if is_different && self.differences.len() < MOST_DIFFERENCES {
            let words = |what: Option<String>| what.unwrap_or_else(|| "nothing".to_owned());
            let (place, expected, found) = (place(), words(expected), words(found));
            self.differences.push(Difference { service: None, place, expected, found });
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/inspection.rs"]
mod tests;
