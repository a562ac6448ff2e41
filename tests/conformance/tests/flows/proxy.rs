//! The two proxies that are asked.

use std::time::Duration;

use conformance_support::{Kit, Running, release};
use test_support::flows::{Flow, Target};
use test_support::{SOON, SettingsVariant, Verdict, patient, wait_until, watch_for};

use crate::differences;
use crate::scene::Scene;

/// Upstream writes rules for the ServiceCIDRs it knows at its first sync; one that it hears of a moment later waits for
/// a full sync, which may be an hour away.
const TRIES: usize = 5;
const A_MOMENT: Duration = Duration::from_secs(2);

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
    pub(crate) fn start(self, kit: &Kit, scene: &Scene, variant: SettingsVariant) -> Result<Running, String> {
        let node = &scene.ground.sandbox.node;
        if self == Proxy::Ours {
            return Running::ours(kit, &scene.plane, node, variant);
        }
        for _ in 0..TRIES {
            let mut running = Running::upstream(kit, &scene.plane, node, variant)?;
            if watch_for(patient(A_MOMENT), || scene.drops_unused_addresses()) {
                return match wait_until(SOON, || scene.knows_its_zone()) {
                    true => Ok(running),
                    false => Err("upstream never learned the zone of its node".into()),
                };
            }
            running.stop()?;
            scene.clear()?;
        }
        Err("upstream never wrote what becomes of unused service addresses".into())
    }

    /// What the verdict on a flow means for this proxy.
    pub(crate) fn review(self, flow: &Flow, verdict: Verdict) -> Verdict {
        match self {
            Proxy::Ours if matches!(flow.to, Target::Unallocated(_)) && !release::has_service_cidrs() => {
                release::too_old("which addresses are unallocated is not known")
            }
            Proxy::Ours
                if matches!(flow.to, Target::Vip(_, "node-hinted", _)) && !release::has_node_hints() =>
            {
                release::too_old("its API drops hints for nodes")
            }
            Proxy::Ours => verdict,
            Proxy::Upstream => differences::review(flow, verdict),
        }
    }
}
