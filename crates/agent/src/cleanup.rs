//! `--cleanup`: the node as if neither this program nor Kubernetes' own kube-proxy had ever run, in whatever mode.
//! Connections that are open keep their translation.

use std::fmt;
use std::io;

use dataplane::nftables::Nftables;
use dataplane::{Backend, SyncError, iptables};
use kernel::iptables::{ToolError, Tools};
use kernel::link::{LinkError, Links};
use kernel::nft::{Connection, Transport};
use model::{Family, LocalDetector};

/// Holds the addresses of services in ipvs mode.
const IPVS_DEVICE: &str = "kube-ipvs0";
/// Three lines of heading, then one a virtual server and its endpoints.
const IPVS_TABLE: &str = "/proc/net/ip_vs";
const IPVS_HEADING: usize = 3;

/// What is still there, and why.
#[derive(Debug)]
pub enum CleanupError {
    Socket(io::Error),
    Nftables {
        family: Family,
        source: SyncError,
    },
    Iptables {
        family: Family,
        source: ToolError,
    },
    /// Rules that only the tools can remove.
    NoTools {
        family: Family,
    },
    Device(LinkError),
    Ipvs {
        servers: usize,
    },
}

impl fmt::Display for CleanupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CleanupError::Socket(source) => write!(f, "cannot open a netlink socket: {source}"),
            CleanupError::Nftables { family, source } => {
                write!(f, "the {family} rules of nftables mode are still there: {source}")
            }
            CleanupError::Iptables { family, source } => {
                write!(f, "the {family} rules of iptables mode may still be there: {source}")
            }
            CleanupError::NoTools { family } => write!(
                f,
                "the {family} rules of iptables mode are still there: the iptables tools that remove them are not \
                 installed; install them, or use the image that holds them"
            ),
            CleanupError::Device(source) => {
                write!(f, "the device {IPVS_DEVICE} of ipvs mode may still be there: {source}")
            }
            CleanupError::Ipvs { servers } => write!(
                f,
                "{servers} lines of virtual servers and endpoints are still in IPVS, which this build cannot remove; \
                 if they are kube-proxy's and nobody else's, run: ipvsadm --clear"
            ),
        }
    }
}

impl std::error::Error for CleanupError {}

/// Remove all rules. One that cannot be removed does not keep the others; every failure is named.
pub fn cleanup() -> Result<(), Vec<CleanupError>> {
    let mut connection = Connection::open().map_err(|error| vec![CleanupError::Socket(error)])?;
    let mut failures = Vec::new();
    for family in Family::BOTH {
        failures.extend(remove_iptables(&mut connection, family).err());
    }
    // Neither a detector nor a mark matters to a table that goes as a whole.
    let mut backend = Nftables::new(connection, &LocalDetector::None, 0);
    for family in Family::BOTH {
        let outcome = backend.cleanup(family);
        failures.extend(outcome.err().map(|source| CleanupError::Nftables { family, source }));
    }
    failures.extend(remove_device().err().map(CleanupError::Device));
    failures.extend(ipvs_left());
    if failures.is_empty() { Ok(()) } else { Err(failures) }
}

fn remove_iptables(connection: &mut Connection, family: Family) -> Result<(), CleanupError> {
    let failed = |source| CleanupError::Iptables { family, source };
    let tools = Tools::installed(family == Family::V6);
    if tools.is_empty() {
        return if is_seen(connection, family) { Err(CleanupError::NoTools { family }) } else { Ok(()) };
    }
    for tools in tools {
        if let Some(script) = iptables::removal(&tools.save().map_err(failed)?) {
            tools.restore(&script).map_err(failed)?;
            tracing::info!(%family, "Removed the rules of iptables mode");
        }
    }
    Ok(())
}

/// Without the tools only their nf_tables variant can be looked at.
fn is_seen(connection: &mut Connection, family: Family) -> bool {
    let kind = match family {
        Family::V4 => kernel::nft::Family::Ip,
        Family::V6 => kernel::nft::Family::Ip6,
    };
    let chains = connection.chains(kind, "nat").unwrap_or_default();
    chains.iter().any(|chain| chain == "KUBE-SERVICES")
}

fn remove_device() -> Result<(), LinkError> {
    let mut links = Links::open()?;
    if links.links()?.iter().any(|link| link.name == IPVS_DEVICE) {
        links.delete(IPVS_DEVICE)?;
        tracing::info!(device = IPVS_DEVICE, "Removed the device of ipvs mode and its addresses");
    }
    Ok(())
}

fn ipvs_left() -> Option<CleanupError> {
    // A kernel without IPVS has no such file.
    let text = std::fs::read_to_string(IPVS_TABLE).ok()?;
    let servers = text.lines().count().saturating_sub(IPVS_HEADING);
    (servers > 0).then_some(CleanupError::Ipvs { servers })
}
