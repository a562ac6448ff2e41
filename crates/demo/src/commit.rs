//! One commit of the agent, both families together.

use std::fmt;
use std::time::Duration;

use super::screen::{count, span};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) services: usize,
    pub(super) bytes: usize,
    pub(super) took: Duration,
    /// All rules were rewritten.
    pub(super) full: bool,
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.full { "all rules: " } else { "" };
        let (services, bytes) = (count(self.services, "service"), count(self.bytes, "byte"));
        write!(f, "planned and committed {what}{services}, {bytes} of netlink, in {}", span(self.took))
    }
}
