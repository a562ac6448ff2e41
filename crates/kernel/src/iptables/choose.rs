//! Choosing between the two iptables: rules written with one are invisible to the other, so that everybody on a node
//! has to use the same. kubelet says which it uses.

use std::cmp::Ordering;
use std::fmt;

use super::toolbox::{Found, Toolbox, name};
use super::{ChooseError, Missing, ToolError, Tools, Variant, Version, look};
use crate::module;

/// The tools to work with.
#[derive(Debug)]
pub struct Chosen {
    pub variant: Variant,
    /// Of IPv4 and of IPv6; one of them may be [missing](Chosen::missing).
    pub tools: [Option<Tools>; 2],
    pub missing: [Option<Missing>; 2],
    pub why: Why,
}

/// Why this variant.
#[derive(Debug)]
pub enum Why {
    OnlyOne,
    /// kubelet has made this chain with it.
    Hint(&'static str),
    MoreRules {
        here: usize,
        there: usize,
    },
    /// As many rules with one as with the other, most often none.
    Default,
    /// The other one would have been taken, but does not work.
    OtherFails(ChooseError),
}

const FAMILIES: [bool; 2] = [false, true];

impl Toolbox {
    /// The tools of the variant that others on this node use. Ask in the network namespace that they are for.
    pub fn choose(&self) -> Result<Chosen, ChooseError> {
        let found = FAMILIES.map(|is_ipv6| self.find(is_ipv6));
        let (variant, why) = self.decide(&found);
        let is_default = matches!(why, Why::Default);
        let error = match self.take(found, variant, why) {
            Err(error) if is_default => error,
            outcome => return outcome,
        };
        // The default needs nf_tables, which an old kernel need not have.
        let again = FAMILIES.map(|is_ipv6| self.find(is_ipv6));
        match self.take(again, variant.other(), Why::OnlyOne) {
            Ok(chosen) => Ok(Chosen { why: Why::OtherFails(error), ..chosen }),
            Err(_) => Err(error),
        }
    }

    /// The tools of that variant, whatever others use.
    pub fn of(&self, variant: Variant, is_ipv6: bool) -> Result<Tools, Missing> {
        self.usable(self.find(is_ipv6), variant, is_ipv6)
    }

    fn decide(&self, found: &[Vec<Found>; 2]) -> (Variant, Why) {
        let is_there = |variant| found.iter().flatten().any(|one| one.variant == variant);
        if !is_there(Variant::Nft) || !is_there(Variant::Legacy) {
            let only = if is_there(Variant::Nft) { Variant::Nft } else { Variant::Legacy };
            return (only, Why::OnlyOne);
        }
        for variant in [Variant::Nft, Variant::Legacy] {
            let mut hints = each(found, variant).map(|(one, is_ipv6)| look::hint(one, is_ipv6, &self.terms));
            if let Some(hint) = hints.find_map(|hint| hint) {
                return (variant, Why::Hint(hint));
            }
        }
        let count = |variant| -> usize {
            each(found, variant).map(|(one, is_ipv6)| look::rules(one, is_ipv6, &self.terms)).sum()
        };
        let (legacy, nft) = (count(Variant::Legacy), count(Variant::Nft));
        match legacy.cmp(&nft) {
            Ordering::Greater => (Variant::Legacy, Why::MoreRules { here: legacy, there: nft }),
            Ordering::Less => (Variant::Nft, Why::MoreRules { here: nft, there: legacy }),
            Ordering::Equal => (Variant::Nft, Why::Default),
        }
    }

    fn take(&self, found: [Vec<Found>; 2], variant: Variant, why: Why) -> Result<Chosen, ChooseError> {
        let [v4, v6] = found;
        let (tools, missing) = match (self.usable(v4, variant, false), self.usable(v6, variant, true)) {
            (Err(v4), Err(v6)) => return Err(ChooseError(Box::new([v4, v6]))),
            (Ok(v4), Ok(v6)) => ([Some(v4), Some(v6)], [None, None]),
            (Ok(v4), Err(v6)) => ([Some(v4), None], [None, Some(v6)]),
            (Err(v4), Ok(v6)) => ([None, Some(v6)], [Some(v4), None]),
        };
        Ok(Chosen { variant, tools, missing, why })
    }

    /// What was found of that variant, if it is new enough, may do its work, and finds its tables.
    fn usable(&self, found: Vec<Found>, variant: Variant, is_ipv6: bool) -> Result<Tools, Missing> {
        if is_ipv6 && !has_ipv6() {
            return Err(Missing::NoIpv6);
        }
        let one = found.into_iter().find(|one| one.variant == variant);
        let one = one.ok_or(Missing::NotInstalled { program: name(is_ipv6) })?;
        let version = one.version?;
        if version < Version::NEEDED {
            return Err(Missing::TooOld { tool: one.programs.main, found: version });
        }
        let mut tools = Tools::new(one.programs, variant, Some(version), is_ipv6, self.terms.clone());
        let tried = tools.try_out();
        let is_loaded_now = || variant == Variant::Legacy && load_legacy(is_ipv6);
        let tried = if tried.is_err() && is_loaded_now() { tools.try_out() } else { tried };
        match tried {
            // The holder of the lock will release it.
            Ok(()) | Err(ToolError::Locked { .. }) => Ok(tools),
            Err(error) => Err(Missing::Failed(error)),
        }
    }
}

fn each(found: &[Vec<Found>; 2], variant: Variant) -> impl Iterator<Item = (&Found, bool)> {
    let by_family = found.iter().zip(FAMILIES);
    by_family.filter_map(move |(of_family, is_ipv6)| {
        of_family.iter().find(|one| one.variant == variant).map(|one| (one, is_ipv6))
    })
}

fn has_ipv6() -> bool {
    std::path::Path::new("/proc/thread-self/net/if_inet6").exists()
}

/// Load the module that the legacy tables of a family are in, if it is not there. Returns whether it has come.
///
/// The kernel loads tables and extensions when they are used, but this module is loaded by the tools themselves, with the
/// `modprobe` and the modules that their container lacks.
fn load_legacy(is_ipv6: bool) -> bool {
    let is_there = || look::has_legacy(is_ipv6);
    // Without the right to, nothing comes of the request.
    !is_there() && module::request(&look::legacy_module(is_ipv6)).is_ok() && is_there()
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::OnlyOne => write!(f, "no other is installed"),
            Why::Hint(chain) => write!(f, "kubelet uses it: its chain {chain} is in table mangle"),
            Why::MoreRules { here, there } => {
                write!(f, "it has more rules on this node: {here}, and the other variant {there}")
            }
            Why::Default => write!(f, "neither the kubelet nor existing rules show which to use"),
            Why::OtherFails(error) => write!(f, "the other variant cannot be used: {error}"),
        }
    }
}
