//! What a simulated nf_tables holds, in a form that does not depend on the order in which it came about.

use std::collections::BTreeMap;

use dataplane::nftables::TABLE_NAME;
use kernel::nft::simulate::Simulator;
use kernel::nft::{DumpedElement, ElementData, Family, Transport};

use super::Contents;

/// Elements by set; empty sets are left out, because sets made for a need stay when it is gone.
pub(super) fn elements(simulator: &mut Simulator) -> Contents {
    let mut all = Contents::new();
    for family in [Family::Ip, Family::Ip6] {
        for set in simulator.sets(family, TABLE_NAME).unwrap() {
            // Pins are made by packets.
            if set != "affinity" && set != "nodeport-affinity" {
                let found = of_set(simulator, family, &set).into_iter();
                let found: Vec<String> =
                    found.map(|(key, values)| format!("{key:02x?} {values:?}")).collect();
                if !found.is_empty() {
                    all.insert(format!("{family:?} {set}"), found);
                }
            }
        }
    }
    all
}

fn of_set(simulator: &mut Simulator, family: Family, set: &str) -> BTreeMap<Vec<u8>, Vec<String>> {
    let is_pool = matches!(
        set,
        "endpoints" | "nodeport-endpoints" | "internal-endpoints" | "internal-nodeport-endpoints"
    );
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
    simulator.dump_elements(family, TABLE_NAME, set, &mut each).unwrap();
    for slots in slots.values_mut() {
        slots.sort_unstable();
        let gapless: Vec<u32> = (0..slots.len() as u32).collect();
        assert_eq!(*slots, gapless, "a pool of {set} has gaps");
    }
    found.values_mut().for_each(|values| values.sort());
    found
}

fn words(element: &DumpedElement<'_>) -> String {
    let comment = element.comment.unwrap_or_default();
    match element.data {
        ElementData::None => comment.to_owned(),
        ElementData::Value(value) => format!("{value:02x?} {comment}"),
        ElementData::Goto(name) | ElementData::Counter(name) => format!("{name} {comment}"),
    }
}
