//! What other programs have written, and with which variant: the ground for a choice. Looking loads no tables.

use std::path::{Path, PathBuf};

use super::toolbox::{Found, name};
use super::{Terms, Variant};
use crate::nft::{Connection, TableFamily, Transport};

/// Chains in table mangle by which kubelet tells which variant it uses.
const HINTS: [&str; 2] = ["KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY"];

/// The chain of kubelet's that is in this variant's tables.
pub(super) fn hint(found: &Found, is_ipv6: bool, terms: &Terms) -> Option<&'static str> {
    let chains = match found.variant {
        Variant::Nft => nft_chains(is_ipv6, "mangle"),
        Variant::Legacy => legacy_chains(found, is_ipv6, terms),
    };
    HINTS.into_iter().find(|hint| chains.iter().any(|chain| chain == hint))
}

/// The chains of a table that the nf_tables variant has written.
pub fn nft_chains(is_ipv6: bool, table: &str) -> Vec<String> {
    let family = if is_ipv6 { TableFamily::Ip6 } else { TableFamily::Ip };
    // Without nf_tables there are none.
    Connection::open().ok().and_then(|mut kernel| kernel.chains(family, table).ok()).unwrap_or_default()
}

fn legacy_chains(found: &Found, is_ipv6: bool, terms: &Terms) -> Vec<String> {
    if !legacy_tables(is_ipv6).iter().any(|table| table == "mangle") {
        return Vec::new();
    }
    let saved = terms.run(&found.programs.save, &["-t", "mangle"], "").unwrap_or_default();
    let chains = saved.lines().filter_map(|line| line.strip_prefix(':')?.split(' ').next());
    chains.map(str::to_owned).collect()
}

/// How many rules this variant's tables hold.
pub(super) fn rules(found: &Found, is_ipv6: bool, terms: &Terms) -> usize {
    if found.variant == Variant::Legacy && legacy_tables(is_ipv6).is_empty() {
        return 0;
    }
    // Of the legacy tables it lists those that are loaded.
    let saved = terms.run(&found.programs.save, &[], "").unwrap_or_default();
    saved.lines().filter(|line| line.starts_with('-')).count()
}

/// The legacy tables that are loaded. To ask for another one loads it, and from then on every packet passes it.
pub(super) fn legacy_tables(is_ipv6: bool) -> Vec<String> {
    let listed = std::fs::read_to_string(legacy_list(is_ipv6));
    // No file, no tables.
    listed.unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The module that holds a family's legacy tables.
pub(super) fn legacy_module(is_ipv6: bool) -> String {
    format!("{}_tables", name(is_ipv6).trim_end_matches("tables"))
}

/// Whether that module is there.
pub(super) fn has_legacy(is_ipv6: bool) -> bool {
    legacy_list(is_ipv6).exists()
}

fn legacy_list(is_ipv6: bool) -> PathBuf {
    // /proc/self is the process's first thread, which may be in another network namespace.
    Path::new("/proc/thread-self/net").join(format!("{}_names", legacy_module(is_ipv6)))
}
