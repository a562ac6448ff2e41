//! What a proxy mode is to everybody outside its folder.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::MODES;
use crate::backend::{Backend, Setup};
use crate::leftovers::{AGENTS_TURN, Leftovers, Removal, Search};
use crate::metrics::{Collector, ModeMetrics};
use crate::nftables::service_counters::Traffic;

/// The mode of this name in the configuration.
pub fn mode(name: &str) -> Result<&'static dyn Mode, Unavailable> {
    let found = MODES.into_iter().find(|mode| mode.name() == name);
    found.ok_or_else(|| Unavailable::new(format!("mode {name} is not in this build")))
}

/// A way to program rules.
pub trait Mode: Sync {
    /// As in the configuration.
    fn name(&self) -> &'static str;

    /// What it measures that not every mode does.
    fn metrics(&self) -> &'static ModeMetrics;

    /// Find what the mode needs on this node. Nothing is changed. `because` says why it is this mode, if none was
    /// set.
    fn prepare(&self, because: Option<&str>) -> Result<Box<dyn Prepared>, Unavailable>;

    /// Remove the rules of this mode, whichever program wrote them.
    fn remove(&self, search: Search) -> Removal;

    /// Whether there are rules of this mode.
    fn is_there(&self) -> bool;

    /// What an operator who chooses this mode should know, as an event: its reason and its note.
    fn advice(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// Where its rules are to be found.
    fn holdings(&self) -> Holdings;

    /// An agent that runs in this mode has written its rules again by then, if they are removed.
    fn rewritten_within(&self) -> Duration {
        AGENTS_TURN
    }
}

/// Where the rules of a mode are to be found, for people who look for a mistake.
#[derive(Clone, Copy, Debug, Default)]
pub struct Holdings {
    /// A table of nf_tables, in both families.
    pub nft_table: Option<&'static str>,
    /// What else the mode has in the kernel, and under which name it is listed.
    pub listed: Option<(&'static str, List)>,
    /// Tables that tools save, by a name for each. It takes long.
    pub save: Option<fn() -> Vec<SavedTables>>,
}

/// Reads a document, and says what is wrong with it.
pub type List = fn() -> Listed;
/// `None` if it could not be read.
pub type Listed = (Option<Value>, Vec<String>);

/// What a tool saved, by the tool's name.
pub type SavedTables = (String, Result<String, Unavailable>);

/// A mode that this node has everything for.
pub trait Prepared {
    /// Log what the mode chose, where it had a choice.
    fn tell(&self) {}

    /// What others may have left beside the rules that are going to be written.
    fn leftovers(&self) -> Leftovers;

    /// Set what the mode needs on the node and a running agent may lack the rights for. Returns what could not be set, in
    /// words.
    fn set_up_node(&self, _setup: &Setup) -> Vec<String> {
        Vec::new()
    }

    /// Call it once the node is set up.
    fn build(self: Box<Self>, options: &BuildOptions<'_>) -> Result<Running, Unavailable>;
}

/// How a mode is to run.
#[derive(Clone, Copy, Debug)]
pub struct BuildOptions<'a> {
    pub setup: &'a Setup,
    /// Count packets, bytes and connections of every service port, where the mode can.
    pub count_services: bool,
}

/// A mode at work.
pub struct Running {
    pub backend: Box<dyn Backend + Send>,
    /// What it counts.
    pub collectors: Vec<Arc<dyn Collector>>,
    /// Where traffic of services is counted.
    pub traffic: Option<Arc<dyn Traffic>>,
}

impl Running {
    /// Show what is counted of services, before anything else.
    pub(crate) fn count_in(&mut self, counters: Arc<impl Collector + Traffic + 'static>) {
        self.collectors.insert(0, counters.clone());
        self.traffic = Some(counters);
    }
}

/// Why a mode cannot work on this node.
#[derive(Debug)]
pub struct Unavailable {
    context: Option<String>,
    source: Box<dyn Error + Send + Sync>,
}

impl Unavailable {
    /// The error says it all.
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Unavailable {
        Unavailable { context: None, source: source.into() }
    }

    /// What could not be done, before why.
    pub fn because(
        context: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Unavailable {
        Unavailable { context: Some(context.into()), source: source.into() }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.context {
            Some(context) => write!(f, "{context}: {}", self.source),
            None => write!(f, "{}", self.source),
        }
    }
}

impl Error for Unavailable {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}
