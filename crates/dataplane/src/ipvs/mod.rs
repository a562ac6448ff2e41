//! Mode ipvs: not offered. Only what another kube-proxy left in that mode is known here.

mod leftovers;

use crate::iptables;
use crate::leftovers::{Removal, Search};
use crate::metrics::ModeMetrics;
use crate::mode::{Mode, Prepared, Unavailable};

pub(crate) use leftovers::has_device;

const NAME: &str = "ipvs";

pub(crate) struct IpvsMode;

/// The line in [`MODES`](crate::MODES).
pub(crate) static MODE: IpvsMode = IpvsMode;

impl Mode for IpvsMode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn metrics(&self) -> &'static ModeMetrics {
        &METRICS
    }

    fn prepare(&self, _because: Option<&str>) -> Result<Box<dyn Prepared>, Unavailable> {
        Err(Unavailable::new("mode ipvs is not in this build"))
    }

    fn remove(&self, search: Search) -> Removal {
        leftovers::remove(search)
    }

    fn is_there(&self) -> bool {
        has_device()
    }
}

/// As upstream's mode has them.
static METRICS: ModeMetrics = ModeMetrics {
    times_partial_syncs: false,
    failures: iptables::RESTORE_FAILURES,
    cleanup_failures: None,
    rules: None,
    upstream: &[],
    gated: None,
    own: &[],
};
