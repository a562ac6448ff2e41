//! Tables that were saved for a question, kept for further ones. Saving takes a second where there are thousands of services,
//! and whoever may ask, may ask often.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kernel::iptables::{Saver, Stamp, Table};

use super::watch::SHARE;
use crate::inspection::{Inspection, InspectionError};

/// How long a question waits until tables may be saved again.
const PATIENCE: Duration = Duration::from_secs(2);

/// Of one family.
#[derive(Clone, Default)]
pub(super) struct Shelf(Arc<Mutex<Option<Kept>>>);

struct Kept {
    /// Filter and nat, or why they cannot be saved.
    text: Result<[String; 2], String>,
    /// From before they were saved.
    stamp: Option<Stamp>,
    writes: u64,
    saved: Instant,
    /// Saving takes a twentieth of a core at most.
    until: Instant,
}

impl Shelf {
    /// Compare with saved tables. Those from before the last write, of which `stamp` tells, do if they do not differ. A stamp
    /// of legacy tables says nothing of rules that were replaced by as many: our own writes are counted as well.
    pub(super) fn compare(
        &self,
        (stamp, writes): (Option<Stamp>, u64),
        save: &Saver,
        compare: impl Fn(&[String; 2]) -> Inspection,
    ) -> Result<Inspection, InspectionError> {
        let mut kept = self.kept();
        if let Some(known) = kept.as_ref().filter(|known| Instant::now() < known.until) {
            let found = compare(known.text.as_ref().map_err(String::as_str)?);
            let is_as_saved = stamp.is_some() && (stamp, writes) == (known.stamp, known.writes);
            if found.differences.is_empty() && found.unsettled == 0 || is_as_saved {
                return Ok(found);
            }
            let wait = known.until.saturating_duration_since(Instant::now());
            if wait > PATIENCE {
                let (before, seconds) = (known.saved.elapsed().as_secs(), wait.as_secs() + 1);
                let problem = "saving the tables takes long, and they changed since they were saved";
                return Err(format!("{problem} {before} s ago; ask again in {seconds} s").into());
            }
            std::thread::sleep(wait);
        }
        let saved = Instant::now();
        let text = save(Table::Filter).and_then(|filter| Ok([filter, save(Table::Nat)?]));
        let until = Instant::now() + saved.elapsed() * SHARE;
        let text = text.map_err(|error| error.to_string());
        let text = &kept.insert(Kept { text, stamp, writes, saved, until }).text;
        Ok(compare(text.as_ref().map_err(String::as_str)?))
    }

    /// Give the memory back of what nobody may be answered with any more.
    pub(super) fn clear_old(&self) {
        if let Ok(mut kept) = self.0.try_lock() {
            kept.take_if(|known| known.until <= Instant::now());
        }
    }

    fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/iptables_shelf.rs"]
mod tests;
