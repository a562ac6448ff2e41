//! `--cleanup`: the node as if neither this program nor Kubernetes' own kube-proxy had ever run, in whatever mode.
//! Connections that are open keep their translation.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use dataplane::nftables::Nftables;
use dataplane::{Backend, SyncError, iptables};
use kernel::iptables::{Table, Tables as _, ToolError, Tools, Variant, legacy_has_chain, nft_chains};
use kernel::link::{LinkError, Links};
use kernel::nft::{self, Connection};
use model::{Family, LocalDetector};

use crate::packet_counters;

/// Holds the addresses of services in ipvs mode.
const IPVS_DEVICE: &str = "kube-ipvs0";
/// Three lines of heading, then one a virtual server and its endpoints.
const IPVS_TABLE: &str = "/proc/net/ip_vs";
const IPVS_HEADING: usize = 3;

/// In table nat, in which all traffic to services begins.
const ROOT_CHAIN: &str = "KUBE-SERVICES";

/// An agent that runs would have noticed by then, in mode nftables and in mode iptables.
const AGENTS_TURN: Duration = Duration::from_millis(300);
const AGENTS_LOOK: Duration = Duration::from_millis(2000);
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

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
        variant: Variant,
    },
    Device(LinkError),
    Ipvs {
        servers: usize,
    },
    /// They were gone, and came back.
    WrittenAgain,
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
            CleanupError::NoTools { family, variant } => {
                let program = if *family == Family::V6 { "ip6tables" } else { "iptables" };
                let ending = if *variant == Variant::Nft { "nft" } else { "legacy" };
                write!(
                    f,
                    "the {family} rules of iptables mode in the {variant} tables are still there, because \
                     {program}-{ending}-restore is not installed; install it, or use the image that holds it"
                )
            }
            CleanupError::Device(source) => {
                write!(f, "the device {IPVS_DEVICE} of ipvs mode may still be there: {source}")
            }
            CleanupError::WrittenAgain => write!(
                f,
                "the rules were removed, and somebody wrote them again at once: stop the kube-proxy of this node first"
            ),
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
    let mut failures = Vec::new();
    let mut had_iptables = false;
    for family in Family::BOTH {
        had_iptables |= remove_iptables(family, None, &mut failures);
    }
    if had_iptables {
        packet_counters::remove();
    }
    let mut tables = open_nftables(&mut failures);
    for family in Family::BOTH {
        let outcome = tables.as_mut().map_or(Ok(()), |tables| tables.cleanup(family));
        failures.extend(outcome.err().map(|source| CleanupError::Nftables { family, source }));
    }
    failures.extend(remove_device().err().map(CleanupError::Device));
    failures.extend(ipvs_left());
    // Only the last one to write rules could do it again.
    let turn = if had_iptables { AGENTS_LOOK } else { AGENTS_TURN };
    let is_left = |failure| matches!(failure, &CleanupError::NoTools { .. } | &CleanupError::Iptables { .. });
    let is_gone = !failures.iter().any(is_left);
    failures.extend(written_again(tables, is_gone, turn));
    if failures.is_empty() { Ok(()) } else { Err(failures) }
}

/// The tables of nftables mode; `None` on a kernel that cannot have any, and where that cannot be known.
pub(crate) fn open_nftables(failures: &mut Vec<CleanupError>) -> Option<Nftables<Connection>> {
    match nft::connect_if_present() {
        // Neither a detector nor a mark matters to a table that goes as a whole.
        Ok(connection) => connection.map(|connection| Nftables::new(connection, &LocalDetector::None, 0)),
        Err(error) => {
            failures.push(CleanupError::Socket(error));
            None
        }
    }
}

/// Remove the rules of iptables mode, but not those of the variant to keep. Returns whether there were any that are
/// gone.
pub(crate) fn remove_iptables(
    family: Family,
    keep: Option<Variant>,
    failures: &mut Vec<CleanupError>,
) -> bool {
    let tools = Tools::installed(family == Family::V6);
    let has_tools = |variant| tools.iter().any(|tools| tools.variant() == variant);
    let out_of_reach = Variant::BOTH
        .into_iter()
        .filter(|variant| Some(*variant) != keep && !has_tools(*variant) && has_rules(*variant, family));
    failures.extend(out_of_reach.map(|variant| CleanupError::NoTools { family, variant }));
    let mut had_some = false;
    for mut tools in tools.into_iter().filter(|tools| Some(tools.variant()) != keep) {
        match remove_with(&mut tools) {
            Ok(false) => {}
            Ok(true) => {
                had_some = true;
                tracing::info!(%family, variant = %tools.variant(), "Removed the rules of iptables mode");
            }
            // Tools for which the kernel has no tables.
            Err(ToolError::NoTables { .. }) if !has_rules(tools.variant(), family) => {}
            Err(source) => failures.push(CleanupError::Iptables { family, source }),
        }
    }
    had_some
}

fn remove_with(tools: &mut Tools) -> Result<bool, ToolError> {
    let Some(script) = iptables::removal(&tools.save_all()?) else { return Ok(false) };
    tools.restore(&script)?;
    Ok(true)
}

/// Whether there are rules of iptables mode, asked without running a program.
pub(crate) fn has_rules(variant: Variant, family: Family) -> bool {
    let is_ipv6 = family == Family::V6;
    match variant {
        Variant::Nft => nft_chains(is_ipv6, Table::Nat.name()).iter().any(|chain| chain == ROOT_CHAIN),
        // Where it cannot be told, the tools may.
        Variant::Legacy => legacy_has_chain(is_ipv6, Table::Nat, ROOT_CHAIN).unwrap_or(true),
    }
}

/// Returns whether it was there.
pub(crate) fn remove_device() -> Result<bool, LinkError> {
    let mut links = Links::open()?;
    let is_there = links.links()?.iter().any(|link| link.name == IPVS_DEVICE);
    if is_there {
        links.delete(IPVS_DEVICE)?;
        tracing::info!(device = IPVS_DEVICE, "Removed the device of ipvs mode and its addresses");
    }
    Ok(is_there)
}

/// A running agent repairs within moments what we call removed. Rules of iptables mode that could not be removed were
/// not written again.
fn written_again(
    mut tables: Option<Nftables<Connection>>,
    were_removed: bool,
    turn: Duration,
) -> Option<CleanupError> {
    let deadline = Instant::now() + turn;
    loop {
        std::thread::sleep(BETWEEN_LOOKS);
        let is_back = |family| {
            tables.as_mut().is_some_and(|tables| tables.exists(family))
                || (were_removed && has_own_iptables(family))
        };
        if Family::BOTH.into_iter().any(is_back) {
            return Some(CleanupError::WrittenAgain);
        }
        if Instant::now() >= deadline {
            return None;
        }
    }
}

/// Whether rules of iptables mode are there. No program is run where there is nothing to find.
fn has_own_iptables(family: Family) -> bool {
    if has_rules(Variant::Nft, family) {
        return true;
    }
    let is_ours = |tools: &Tools| tools.save_all().is_ok_and(|saved| iptables::removal(&saved).is_some());
    has_rules(Variant::Legacy, family) && Tools::installed(family == Family::V6).iter().any(is_ours)
}

pub(crate) fn ipvs_left() -> Option<CleanupError> {
    // A kernel without IPVS has no such file.
    let text = std::fs::read_to_string(IPVS_TABLE).ok()?;
    let servers = text.lines().count().saturating_sub(IPVS_HEADING);
    (servers > 0).then_some(CleanupError::Ipvs { servers })
}
