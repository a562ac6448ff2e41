//! Mode nftables as the agent sees it: what it needs, how it is built, what it measures.

use std::io;

use kernel::nft::{self, Connection};

use super::{Nftables, fullness, leftovers, refusals, service_counters};
use crate::leftovers::{Leftovers, Removal, Search};
use crate::localhost::{self, Listening};
use crate::metrics::{Description, ModeMetrics};
use crate::mode::{BuildOptions, Holdings, Mode, Prepared, Running, Unavailable};
use table::TABLE;

pub(crate) struct NftablesMode;

/// The line in [`MODES`](crate::MODES).
pub(crate) static MODE: NftablesMode = NftablesMode;

pub(super) const NAME: &str = "nftables";

impl Mode for NftablesMode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn metrics(&self) -> &'static ModeMetrics {
        &METRICS
    }

    fn holdings(&self) -> Holdings {
        Holdings { nft_table: Some(TABLE), ..Holdings::default() }
    }

    /// What the kernel lacks says it all, however the mode was chosen.
    fn prepare(&self, _because: Option<&str>) -> Result<Box<dyn Prepared>, Unavailable> {
        nft::probe(nft::OLDEST_KERNEL).map_err(Unavailable::new)?;
        Ok(Box::new(Ready))
    }

    fn remove(&self, search: Search) -> Removal {
        leftovers::remove(search)
    }

    fn is_there(&self) -> bool {
        leftovers::are_there()
    }
}

/// The kernel has all that is needed.
struct Ready;

impl Prepared for Ready {
    /// What was in our tables is replaced.
    fn leftovers(&self) -> Leftovers {
        Leftovers::new(NAME, Vec::new)
    }

    fn build(self: Box<Self>, options: &BuildOptions<'_>) -> Result<Running, Unavailable> {
        let cannot = |what: &str| {
            let context = format!("cannot {what}");
            move |error: io::Error| Unavailable::because(context, error)
        };
        let connection = Connection::open().map_err(cannot("open a netlink socket"))?;
        let own_port = connection.port();
        let backend = Nftables::new(connection, &options.setup.detector, options.setup.masquerade_mark)
            .notified_beside(own_port)
            .room_for_pins(fullness::room())
            .count_traffic(options.count_services);
        let backend = Listening::new(backend, options.setup);
        let listeners = localhost::collector(backend.figures());
        let collectors = vec![fullness::collector(), refusals::collector(), listeners];
        let mut running = Running { backend: Box::new(backend), collectors, traffic: None };
        if options.count_services {
            let counters = service_counters::start();
            running.count_in(counters.map_err(cannot("start reading the counters of services"))?);
        }
        Ok(running)
    }
}

const OF_FAMILY: &[&str] = &["ip_family"];

pub(crate) const SYNC_FAILURES: Description = Description::counter(
    "kubeproxy_sync_proxy_rules_nftables_sync_failures_total",
    OF_FAMILY,
    "Syncs that the kernel refused; the previous rules remain active and all rules are retried",
);

static METRICS: ModeMetrics = ModeMetrics {
    times_partial_syncs: true,
    failures: SYNC_FAILURES,
    cleanup_failures: Some(Description::counter(
        "kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total",
        OF_FAMILY,
        "Syncs that succeeded but could not remove everything stale",
    )),
    rules: None,
    upstream: &[],
    gated: Some(localhost::GATED),
    own: &{
        let [packets, bytes, connections, refused] = service_counters::METRICS;
        let [held, limit] = fullness::METRICS;
        let [dropped, rejected] = refusals::METRICS;
        [packets, bytes, connections, refused, held, limit, dropped, rejected]
    },
};
