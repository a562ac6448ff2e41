//! Mode ipvs as the agent sees it: what it needs, how it is built, what it measures.

use kernel::sysctl::Root;
use kernel::{ipvs, nft};
use model::Scheduler;

use super::{Ipvs, NAME, ground, leftovers, listed, statistics, sysctls};
use crate::backend::Setup;
use crate::iptables;
use crate::leftovers::{Leftovers, Removal, Search};
use crate::localhost::{self, Listening};
use crate::metrics::ModeMetrics;
use crate::mode::{BuildOptions, Holdings, Mode, Prepared, Running, Unavailable};
use crate::nftables;

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

    fn holdings(&self) -> Holdings {
        Holdings { listed: Some(("virtualServers", listed::servers)), ..nftables::MODE.holdings() }
    }

    fn prepare(&self, _because: Option<&str>) -> Result<Box<dyn Prepared>, Unavailable> {
        let cannot = "mode ipvs cannot work here; use mode nftables";
        nft::probe(nft::OLDEST_KERNEL)
            .map_err(|error| Unavailable::because("mode ipvs cannot work here", error))?;
        let servers = ipvs::Connection::open().map_err(|error| Unavailable::because(cannot, error))?;
        Ok(Box::new(Ready(servers)))
    }

    fn advice(&self) -> Option<(&'static str, &'static str)> {
        Some((
            "IPVSDeprecation",
            "Mode ipvs is supported here, but Kubernetes has deprecated its own. Mode nftables does the same without IPVS; \
             consider mode: nftables unless you rely on a scheduler.",
        ))
    }

    fn remove(&self, search: Search) -> Removal {
        leftovers::remove(search)
    }

    fn is_there(&self) -> bool {
        ground::has_device()
    }
}

/// The kernel has IPVS.
struct Ready(ipvs::Connection);

impl Prepared for Ready {
    fn leftovers(&self) -> Leftovers {
        // The table of mode nftables is ours, too.
        Leftovers::new(NAME, Vec::new).beside(nftables::MODE.name()).finally(leftovers::remove_strays)
    }

    fn set_up_node(&self, setup: &Setup) -> Vec<String> {
        let undone = sysctls::set_up(setup.of_mode.ipvs.strict_arp);
        let mut undone: Vec<String> = undone.iter().map(ToString::to_string).collect();
        // Some modules can only be loaded with the rights of an init container.
        let servers = ipvs::Connection::open().map_err(Unavailable::new);
        let checked =
            servers.and_then(|mut servers| check_scheduler(&mut servers, setup.of_mode.ipvs.scheduler));
        undone.extend(checked.err().map(|error| error.to_string()));
        undone
    }

    fn build(self: Box<Self>, options: &BuildOptions<'_>) -> Result<Running, Unavailable> {
        let Ready(mut servers) = *self;
        check_scheduler(&mut servers, options.setup.of_mode.ipvs.scheduler)?;
        let rules = nft::Connection::open();
        let rules = rules.map_err(|error| Unavailable::because("cannot open a netlink socket", error))?;
        let own_port = rules.port();
        let mut backend = Ipvs::new(rules, servers, ground::Node::default(), options.setup);
        backend.rules = backend.rules.notified_beside(own_port).room_for_pins(nftables::room_for_pins_here());
        let mut backend = backend.count_refused(options.count_services);
        backend.sysctls = Some(sysctls::Sysctls::new(Root::system()));
        backend.set_timeouts();
        let mut collectors = vec![
            statistics::collector(backend.held.clone()),
            nftables::fullness_collector(),
            nftables::refusals::collector(),
        ];
        let counters = options.count_services.then(|| statistics::count_services(&backend.held));
        let backend = Listening::new(backend, options.setup);
        collectors.push(localhost::collector(backend.figures()));
        let mut running = Running { backend: Box::new(backend), collectors, traffic: None };
        if let Some(counters) = counters.transpose()? {
            running.count_in(counters);
        }
        Ok(running)
    }
}

/// Without its scheduler no virtual server can be made. To ask loads it, safely.
pub(super) fn check_scheduler<T: ipvs::Transport>(
    servers: &mut T,
    scheduler: Scheduler,
) -> Result<(), Unavailable> {
    let name = scheduler.name();
    match servers.scheduler_available(name) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Unavailable::new(format!(
            "mode ipvs cannot use scheduler {name}: this kernel has no module ip_vs_{name}; load it, or choose another \
             scheduler with --ipvs-scheduler"
        ))),
        Err(error) => {
            Err(Unavailable::because(format!("cannot find out whether IPVS has scheduler {name}"), error))
        }
    }
}

/// As upstream's mode has them.
static METRICS: ModeMetrics = ModeMetrics {
    times_partial_syncs: false,
    failures: iptables::RESTORE_FAILURES,
    cleanup_failures: None,
    rules: None,
    upstream: &[],
    gated: Some(localhost::GATED),
    own: &statistics::METRICS,
};
