//! The two proxies that are asked.

use conformance::{Kit, Running};
use scenarios::flows::Flow;
use scenarios::{Variant, Verdict};

use crate::differences;
use crate::scene::Scene;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proxy {
    Ours,
    Upstream,
}

impl Proxy {
    pub(crate) const ALL: [Proxy; 2] = [Proxy::Ours, Proxy::Upstream];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Proxy::Ours => "ours",
            Proxy::Upstream => "upstream",
        }
    }

    /// Start it and wait until it steers traffic.
    pub(crate) fn start(self, kit: &Kit, scene: &Scene, variant: Variant) -> Result<Running, String> {
        let start = match self {
            Proxy::Ours => Running::ours,
            Proxy::Upstream => Running::upstream,
        };
        start(kit, &scene.plane, &scene.ground.sandbox.node, variant)
    }

    /// What the verdict on a flow means for this proxy.
    pub(crate) fn review(self, flow: &Flow, verdict: Verdict) -> Verdict {
        match self {
            Proxy::Ours => verdict,
            Proxy::Upstream => differences::review(flow, verdict),
        }
    }
}
