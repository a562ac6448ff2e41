//! Interval sets: the start and the end of an interval are elements of their own, sent start first.

use std::collections::BTreeMap;

use super::Errno;
use super::state::{Element, Key};

/// Whether a new start or end keeps the intervals apart. The kernel says EEXIST for every overlap.
pub(super) fn check_insert(elements: &BTreeMap<Key, Element>, key: &Key) -> Result<(), Errno> {
    let below = elements.range(..key).next_back().map(|(key, _)| key.is_start);
    let above = elements.range(key..).next().map(|(key, _)| key.is_start);
    let fits = match key.is_start {
        true => below != Some(true),
        // An end closes the start below it, which may still be missing, unless that has its end already.
        false => below != Some(false) && above != Some(false),
    };
    if fits { Ok(()) } else { Err(libc::EEXIST) }
}
