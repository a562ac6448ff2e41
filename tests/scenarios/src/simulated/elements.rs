//! What nf_tables holds, simulated or real, in a form that does not depend on the order in which it came about.

use std::collections::BTreeMap;

use dataplane::nftables::TABLE_NAME;
use kernel::nft::{DumpedElement, ElementData, TableFamily, Transport};

use super::Contents;

/// Elements by set; empty sets are left out, because sets made for a need stay when it is gone. The error says what is
/// wrong with the reading or with what was read: a real kernel that is written to meanwhile leaves out elements and repeats
/// some.
pub fn elements(transport: &mut impl Transport) -> Result<Contents, String> {
    let mut all = Contents::new();
    for family in [TableFamily::Ip, TableFamily::Ip6] {
        for set in transport.sets(family, TABLE_NAME).map_err(|error| error.to_string())? {
            // Pins are made by packets.
            if set != "affinity" && set != "nodeport-affinity" {
                let found = of_set(transport, family, &set)?.into_iter();
                let found: Vec<String> =
                    found.map(|(key, values)| format!("{key:02x?} {values:?}")).collect();
                if !found.is_empty() {
                    all.insert(format!("{family:?} {set}"), found);
                }
            }
        }
    }
    Ok(all)
}

fn of_set(
    transport: &mut impl Transport,
    family: TableFamily,
    set: &str,
) -> Result<BTreeMap<Vec<u8>, Vec<String>>, String> {
    let is_pool = is_pool(set);
    let mut found: BTreeMap<Vec<u8>, Vec<String>> = BTreeMap::new();
    let mut slots: BTreeMap<Vec<u8>, Vec<u32>> = BTreeMap::new();
    let mut each = |element: DumpedElement<'_>| {
        if is_pool {
            // Endpoints keep their slots while others come and go: which slot says nothing, the pool does.
            let (key, slot) = element.key.split_at(element.key.len() - 4);
            found.entry(key.to_vec()).or_default().push(words(&element));
            slots.entry(key.to_vec()).or_default().push(u32::from_ne_bytes(slot.try_into().unwrap()));
        } else {
            let key = [element.key, &[u8::from(element.interval_end)]].concat();
            found.entry(key).or_default().push(words(&element));
        }
    };
    transport.dump_elements(family, TABLE_NAME, set, &mut each).map_err(|error| error.to_string())?;
    for slots in slots.values_mut() {
        slots.sort_unstable();
        let gapless: Vec<u32> = (0..slots.len() as u32).collect();
        if *slots != gapless {
            return Err(format!("a pool of {set} has gaps: {slots:?}"));
        }
    }
    found.values_mut().for_each(|values| values.sort());
    Ok(found)
}

/// A map whose keys end in a slot: the common ones, and those of a service port's own.
fn is_pool(set: &str) -> bool {
    let common = ["endpoints", "nodeport-endpoints", "internal-endpoints", "internal-nodeport-endpoints"];
    common.contains(&set) || set.starts_with("pool-") && !set.ends_with("-members")
}

fn words(element: &DumpedElement<'_>) -> String {
    let comment = element.comment.unwrap_or_default();
    match element.data {
        ElementData::None => comment.to_owned(),
        ElementData::Value(value) => format!("{value:02x?} {comment}"),
        ElementData::Goto(name) | ElementData::Counter(name) => format!("{name} {comment}"),
    }
}
