//! What the source tells about itself while it works, for metrics.

use std::time::Duration;

use super::complaints::Extent;
use crate::Kind;

/// Hears of requests and of how each kind is followed. It is called on the source's thread and must not block.
pub trait Observer: Send + Sync {
    fn request(&self, request: &RequestSeen<'_>);
    /// A kind is followed in another way from now on, or again in the same way.
    fn phase(&self, kind: Kind, phase: Phase);
    /// Something came for this kind: objects, or a mark that there are none.
    fn heard(&self, kind: Kind);
    /// An object came that cannot be used, in whole or in part.
    fn passed_over(&self, kind: Kind, extent: Extent);
    /// So many objects are of this sort now, as far as they are remembered.
    fn unusable(&self, kind: Kind, extent: Extent, count: usize);
}

/// How a kind is followed at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Everything there is has been asked for.
    Listing,
    /// Changes come as they happen.
    Watching,
    /// The last list or watch failed; the next one is waited for.
    Failed,
    /// The server does not have this kind, or not for us, and we can do without.
    Absent,
}

/// One request, from the moment it was wanted until its answer began.
#[derive(Clone, Copy, Debug)]
pub struct RequestSeen<'a> {
    pub method: &'a str,
    /// The apiserver, as `host:port` or `host`.
    pub host: &'a str,
    /// `None`: there was no answer.
    pub code: Option<u16>,
    /// How long our own limit held it back.
    pub held_back: Duration,
    pub took: Duration,
    /// Bytes of its body.
    pub size: usize,
}

/// Counts nothing.
impl Observer for () {
    fn request(&self, _: &RequestSeen<'_>) {}
    fn phase(&self, _: Kind, _: Phase) {}
    fn heard(&self, _: Kind) {}
    fn passed_over(&self, _: Kind, _: Extent) {}
    fn unusable(&self, _: Kind, _: Extent, _: usize) {}
}
