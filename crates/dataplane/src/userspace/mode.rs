//! Mode userspace as the agent sees it: what it needs, how it is built, what it measures.

use kernel::nft;
use kernel::sysctl::{Root, SysctlError};

use super::node::Node;
use super::{NAME, Userspace, ground, metrics};
use crate::backend::Setup;
use crate::leftovers::{Leftover, Leftovers, Removal, Search};
use crate::metrics::ModeMetrics;
use crate::mode::{BuildOptions, Holdings, Mode, Prepared, Running, Unavailable};
use crate::nftables::{self, service_counters};
use forwarder::Forwarder;

pub(crate) struct UserspaceMode;

/// The line in [`MODES`](crate::MODES).
pub(crate) static MODE: UserspaceMode = UserspaceMode;

impl Mode for UserspaceMode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn metrics(&self) -> &'static ModeMetrics {
        &METRICS
    }

    fn holdings(&self) -> Holdings {
        nftables::MODE.holdings()
    }

    fn prepare(&self, _because: Option<&str>) -> Result<Box<dyn Prepared>, Unavailable> {
        nft::probe(nft::OLDEST_KERNEL)
            .map_err(|error| Unavailable::because("mode userspace cannot work here", error))?;
        Ok(Box::new(Ready))
    }

    fn advice(&self) -> Option<(&'static str, &'static str)> {
        Some((
            "UserspaceModeIsSlow",
            "Mode userspace copies all traffic through kube-proxy: it is slower than any other mode, endpoints see the \
             node's address instead of the client's, and connections end with the agent. Use it where no NAT to pods is \
             possible; else use mode: nftables.",
        ))
    }

    fn remove(&self, _search: Search) -> Removal {
        let mut removal = Removal::default();
        match ground::clear() {
            Ok(had_some) => {
                removal.had_some = had_some;
                if had_some {
                    tracing::info!("Removed the routes of userspace mode");
                }
            }
            Err(error) => {
                let what = "the routes of userspace mode may still be there";
                removal.left.push(Leftover::new(NAME, what).because(error).idle());
            }
        }
        removal
    }

    fn is_there(&self) -> bool {
        ground::is_there()
    }
}

/// The kernel has all that is needed.
struct Ready;

/// Clients of all services come to one listener, so the kernel gives a connection another source port there if the client
/// has one from its port to another service already. Older kernels (seen: 6.1) look the socket up before that, and give
/// its packets to the other connection.
const EARLY_DEMUX: &str = "/proc/sys/net/ipv4/tcp_early_demux";

fn look_up_late() -> Result<(), SysctlError> {
    let root = Root::system();
    if root.read(EARLY_DEMUX)? != "0" {
        root.write(EARLY_DEMUX, 0)?;
        tracing::info!(file = EARLY_DEMUX, after = 0, "Changed a node setting that mode userspace needs");
    }
    Ok(())
}

impl Prepared for Ready {
    fn leftovers(&self) -> Leftovers {
        // The table of mode nftables is ours, too.
        Leftovers::new(NAME, Vec::new).beside(nftables::MODE.name())
    }

    fn set_up_node(&self, _setup: &Setup) -> Vec<String> {
        look_up_late().err().iter().map(ToString::to_string).collect()
    }

    fn build(self: Box<Self>, options: &BuildOptions<'_>) -> Result<Running, Unavailable> {
        if let Err(error) = look_up_late() {
            tracing::warn!(
                %error,
                "Failed to set a sysctl; some connections may time out. Set it on the node, or run --init-only"
            );
        }
        let cannot = |what: &'static str| move |error| Unavailable::because(what, error);
        let rules = nft::Connection::open().map_err(cannot("cannot open a netlink socket"))?;
        let own_port = rules.port();
        let forwarder = Forwarder::start(0).map_err(cannot("cannot start the forwarder"))?;
        let node = Node::new(forwarder);
        let shared = node.shared();
        let mut backend = Userspace::with(rules, node, options.setup, shared.directory.clone());
        backend.rules = backend.rules.notified_beside(own_port).count_refused(options.count_services);
        let mut collectors = vec![metrics::collector(shared), nftables::refusals::collector()];
        if options.count_services {
            let counters = service_counters::start();
            collectors.push(counters.map_err(cannot("cannot start reading the counters of services"))?);
        }
        // What the forwarder carries is not counted per service.
        Ok(Running { backend: Box::new(backend), collectors, traffic: None })
    }
}

static METRICS: ModeMetrics = ModeMetrics {
    times_partial_syncs: true,
    failures: nftables::SYNC_FAILURES,
    cleanup_failures: None,
    rules: None,
    upstream: &[],
    gated: None,
    own: &{
        let [open, limit, opened, refused, failed, bytes, held, blocked, lost, ended] = metrics::METRICS;
        let [dropped, rejected] = nftables::refusals::METRICS;
        let [_, _, _, of_service] = service_counters::METRICS;
        [
            open, limit, opened, refused, failed, bytes, held, blocked, lost, ended, dropped, rejected,
            of_service,
        ]
    },
};
