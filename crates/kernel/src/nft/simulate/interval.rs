//! Interval sets: the start and the end of an interval are elements of their own, sent start first.

use std::collections::BTreeMap;

use super::Errno;
use super::state::{Element, Key};

/// Whether a new start or end keeps the intervals apart. The kernel says EEXIST for every overlap.
pub(super) fn check_insert(elements: &BTreeMap<Key, Element>, key: &Key) -> Result<(), Errno> {
    let below = elements.range(..key).next_back().map(|(key, _)| key);
    let above = elements.range(key..).next().map(|(key, _)| key);
    let inside = below.is_some_and(|key| key.is_start) && above.is_some_and(|key| !key.is_start);
    let fits = match key.is_start {
        true => !inside,
        // An end belongs to the open start below it; the lone end of value 0 is how the nft tool marks
        // that the lowest values are outside.
        false => below.is_some_and(|key| key.is_start) && !inside || key.bytes.iter().all(|byte| *byte == 0),
    };
    if fits { Ok(()) } else { Err(libc::EEXIST) }
}
