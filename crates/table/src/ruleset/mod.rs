//! Tables of nf_tables in the JSON that `nft -j list table` prints, read over netlink: images of the agent have no `nft`.
//!
//! [`objects`] reads a table but for the elements of its sets, which are many; [`elements`] reads those of one set. Where
//! they differ from what `nft` prints is documented in `docs/ask.md`.

mod elements;
mod rule;
mod types;

use std::collections::HashMap;

use kernel::nft::sys::{NFT_DATA_VERDICT, NFT_SET_CONSTANT, NFT_SET_EVAL, NFT_SET_INTERVAL, NFT_SET_TIMEOUT};
use kernel::nft::{Connection, ListedChain, ListedSet, Listing, ObjectKind, TableFamily};
use model::Family;
use serde_json::{Value, json};

use crate::nft_family;
use elements::Elements;
use types::Type;

/// Why a table could not be read.
pub type Unread = Box<dyn std::error::Error + Send + Sync>;

/// What a table holds.
pub struct Objects {
    pub listed: Vec<Value>,
    /// Nobody changed it while it was read.
    pub is_whole: bool,
    /// There is more.
    pub is_truncated: bool,
}

/// Everything in a table but the elements, at most so many things.
pub fn objects(family: Family, table: &str, most: usize) -> Result<Objects, Unread> {
    let family = nft_family(family);
    let mut connection = Connection::open()?;
    let mut listed = Vec::new();
    let mut is_truncated = false;
    let mut sizes = Sizes::new();
    let is_whole = connection.list_table(family, table, &mut |one| {
        if let Listing::Set(set) = &one {
            sizes.insert(set.name.to_owned(), words(set));
        }
        match listed.len() < most {
            true => listed.push(document(family, table, one, &sizes)),
            false => is_truncated = true,
        }
    })?;
    Ok(Objects { listed, is_whole, is_truncated })
}

/// The elements of a set as a JSON array of at most so many bytes, and whether there are more. `None` if there is no such
/// set.
pub fn elements(
    family: Family,
    table: &str,
    set: &str,
    most: usize,
) -> Result<Option<(String, bool)>, Unread> {
    let family = nft_family(family);
    let mut connection = Connection::open()?;
    let mut found = None;
    connection.list_table(family, table, &mut |one| match one {
        Listing::Set(listed) if listed.name == set => found = Some(Elements::of(&listed, most)),
        _ => {}
    })?;
    let Some(mut elements) = found else { return Ok(None) };
    elements.read(&mut connection, family, table, set)?;
    Ok(Some(elements.finish()))
}

/// How many words of four bytes the key and the data of a set take.
type Sizes = HashMap<String, (usize, usize)>;

fn words(set: &ListedSet<'_>) -> (usize, usize) {
    let data = set.data_type.filter(|number| *number != NFT_DATA_VERDICT).map(types::of).unwrap_or_default();
    (set.key_length.div_ceil(4) as usize, data.iter().map(|one| one.length() / 4).sum())
}

fn document(family: TableFamily, table: &str, one: Listing<'_>, sizes: &Sizes) -> Value {
    let family_name = family.to_string();
    match one {
        Listing::Table { handle, comment } => {
            let mut object = json!({ "family": family_name, "name": table, "handle": handle });
            if !comment.is_empty() {
                object["comment"] = comment.into();
            }
            json!({ "table": object })
        }
        Listing::Counter { name, handle, packets, bytes } => json!({ "counter": {
            "family": family_name, "name": name, "table": table, "handle": handle, "packets": packets, "bytes": bytes,
        } }),
        Listing::Set(set) => set_document(&family_name, table, &set),
        Listing::Chain(chain) => json!({ "chain": chain_document(&family_name, table, &chain) }),
        Listing::Rule(rule) => json!({ "rule": {
            "family": family_name, "table": table, "chain": rule.chain, "handle": rule.handle,
            "expr": rule::statements(family, &rule.instructions, sizes),
        } }),
    }
}

fn set_document(family: &str, table: &str, set: &ListedSet<'_>) -> Value {
    let names = |types: Vec<Type>| -> Vec<String> {
        types.into_iter().map(|one| one.name(set.has_declaration)).collect()
    };
    let mut kinds = names(types::of(set.key_type));
    let kind = if kinds.len() == 1 { kinds.remove(0).into() } else { json!(kinds) };
    let mut object =
        json!({ "family": family, "name": set.name, "table": table, "type": kind, "handle": set.handle });
    let data = match (set.data_type, set.object) {
        (_, Some(ObjectKind::Counter)) => Some("counter".to_owned()),
        (_, Some(ObjectKind::Other(number))) => Some(format!("object {number}")),
        (Some(NFT_DATA_VERDICT), _) => Some("verdict".to_owned()),
        (Some(number), _) => Some(names(types::of(number)).join(" . ")),
        (None, None) => None,
    };
    let flags: Vec<&str> = [
        (NFT_SET_CONSTANT, "constant"),
        (NFT_SET_INTERVAL, "interval"),
        (NFT_SET_TIMEOUT, "timeout"),
        // As nft, which names the more telling one of the two.
        (NFT_SET_EVAL, "dynamic"),
    ]
    .into_iter()
    .filter(|(bit, _)| set.flags & bit != 0 && (*bit != NFT_SET_EVAL || set.flags & NFT_SET_TIMEOUT == 0))
    .map(|(_, name)| name)
    .collect();
    if set.size > 0 {
        object["size"] = set.size.into();
    }
    if !flags.is_empty() {
        object["flags"] = json!(flags);
    }
    if let Some(timeout) = set.timeout_ms.filter(|timeout| *timeout > 0) {
        object["timeout"] = (timeout / 1000).into();
    }
    match data {
        Some(data) => {
            object["map"] = data.into();
            json!({ "map": object })
        }
        None => json!({ "set": object }),
    }
}

fn chain_document(family: &str, table: &str, chain: &ListedChain<'_>) -> Value {
    let mut object = json!({ "family": family, "table": table, "name": chain.name, "handle": chain.handle });
    if let Some(hook) = &chain.hook {
        const HOOKS: [&str; 5] = ["prerouting", "input", "forward", "output", "postrouting"];
        let number = usize::try_from(hook.number).unwrap_or(usize::MAX);
        object["type"] = hook.kind.into();
        object["hook"] = HOOKS.get(number).map_or_else(|| hook.number.into(), |name| (*name).into());
        object["prio"] = hook.priority.into();
        object["policy"] = if hook.drops { "drop" } else { "accept" }.into();
    }
    object
}
