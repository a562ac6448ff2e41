//! Removes the chains of iptables mode, ours or those of Kubernetes' own kube-proxy: both have the same names.

use kernel::iptables::{Table, Tables as _, ToolError, Tools, Variant, legacy_has_chain, nft_chains};
use model::Family;

use super::mode::NAME;
use super::{packet_counters, removal, removal_of_ipvs};
use crate::has_service_device;
use crate::leftovers::{Leftover, Removal, Search};

/// In table nat, in which all traffic to services begins.
const ROOT_CHAIN: &str = "KUBE-SERVICES";

pub(super) fn remove(search: Search) -> Removal {
    let mut all = Removal::default();
    for family in Family::BOTH {
        if search == Search::Everywhere || Variant::BOTH.into_iter().any(|variant| has_rules(variant, family))
        {
            remove_from(family, None, &mut all);
        }
    }
    if all.had_some && search == Search::Everywhere {
        packet_counters::remove();
    }
    all
}

/// What is not in the tables that this agent has just written, and of ipvs mode what is.
pub(super) fn remove_strays(own: Variant) -> Vec<Leftover> {
    let mut all = Removal::default();
    for family in Family::BOTH {
        let mut others = Variant::BOTH.into_iter().filter(|variant| *variant != own);
        // No program is run where there is nothing to find.
        if others.any(|variant| has_rules(variant, family)) {
            remove_from(family, Some(own), &mut all);
        }
    }
    if has_service_device() {
        Family::BOTH.into_iter().for_each(|family| all.left.extend(remove_rest_of_ipvs(family, own)));
    }
    all.left
}

/// Whether there are rules. No program is run where there is nothing to find.
pub(super) fn are_there() -> bool {
    let is_ours = |tools: &Tools| tools.save_all().is_ok_and(|saved| removal(&saved).is_some());
    Family::BOTH.into_iter().any(|family| {
        has_rules(Variant::Nft, family)
            || (has_rules(Variant::Legacy, family)
                && Tools::installed(family == Family::V6).iter().any(is_ours))
    })
}

/// Remove the rules, but not those of the variant to keep.
fn remove_from(family: Family, keep: Option<Variant>, all: &mut Removal) {
    let tools = Tools::installed(family == Family::V6);
    let has_tools = |variant| tools.iter().any(|tools| tools.variant() == variant);
    let out_of_reach = Variant::BOTH
        .into_iter()
        .filter(|variant| Some(*variant) != keep && !has_tools(*variant) && has_rules(*variant, family));
    all.left.extend(out_of_reach.map(|variant| without_tools(family, variant)));
    for mut tools in tools.into_iter().filter(|tools| Some(tools.variant()) != keep) {
        match remove_with(&mut tools, removal) {
            Ok(false) => {}
            Ok(true) => {
                all.had_some = true;
                tracing::info!(%family, variant = %tools.variant(), "Removed the rules of iptables mode");
            }
            // Tools for which the kernel has no tables.
            Err(ToolError::NoTables { .. }) if !has_rules(tools.variant(), family) => {}
            Err(source) => all.left.push(failed(family, source)),
        }
    }
}

/// The chains that mode ipvs shares with mode iptables have been rewritten; its own go here.
fn remove_rest_of_ipvs(family: Family, own: Variant) -> Option<Leftover> {
    let mut tools = Tools::installed(family == Family::V6).into_iter();
    let mut tools = tools.find(|tools| tools.variant() == own)?;
    remove_with(&mut tools, removal_of_ipvs).err().map(|source| failed(family, source))
}

/// Returns whether there was something.
fn remove_with(tools: &mut Tools, removal: fn(&str) -> Option<String>) -> Result<bool, ToolError> {
    let Some(script) = removal(&tools.save_all()?) else { return Ok(false) };
    tools.restore(&script)?;
    Ok(true)
}

/// Whether there are rules, asked without running a program.
fn has_rules(variant: Variant, family: Family) -> bool {
    let is_ipv6 = family == Family::V6;
    match variant {
        Variant::Nft => nft_chains(is_ipv6, Table::Nat.name()).iter().any(|chain| chain == ROOT_CHAIN),
        // If that is unknown, the tools may know.
        Variant::Legacy => legacy_has_chain(is_ipv6, Table::Nat, ROOT_CHAIN).unwrap_or(true),
    }
}

fn failed(family: Family, source: ToolError) -> Leftover {
    let what = format!("the {family} rules of iptables mode may still be there");
    Leftover::new(NAME, what).of_family(family).because(source)
}

/// Rules that only the tools can remove.
fn without_tools(family: Family, variant: Variant) -> Leftover {
    let program = if family == Family::V6 { "ip6tables" } else { "iptables" };
    let ending = if variant == Variant::Nft { "nft" } else { "legacy" };
    let what = format!(
        "the {family} rules of iptables mode in the {variant} tables are still there, because \
         {program}-{ending}-restore is not installed; install it, or use the image that holds it"
    );
    Leftover::new(NAME, what).of_family(family)
}
