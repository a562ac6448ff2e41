//! Why a rule of our table refuses a packet: by the counter that it counts in.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use kernel::nft::{Connection, Step};
use model::{Family, Refusal};

use super::End;
use crate::{TABLE, nft_family};

/// Rules that are not known are looked up no more often.
const LOOKUP: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Reasons {
    family: Family,
    connection: Option<Connection>,
    /// By the handles of rules, which are others after each rewrite.
    rules: HashMap<u64, Option<End>>,
    read: Option<Instant>,
}

impl Reasons {
    pub(super) fn new(family: Family) -> Reasons {
        Reasons { family, connection: Connection::open().ok(), rules: HashMap::new(), read: None }
    }

    /// What this step of ours means for the packet; `None` if it goes on, or if the rule is gone since.
    ///
    /// A rule that refuses and does not count says by its chain what it is for.
    pub(super) fn of(&mut self, step: &Step<'_>, now: Instant) -> Option<End> {
        let handle = step.rule?;
        if !self.rules.contains_key(&handle) && self.read.is_none_or(|read| now >= read + LOOKUP) {
            self.read = Some(now);
            self.read_rules();
        }
        match self.rules.get(&handle)? {
            Some(end) => Some(end.clone()),
            None if !step.is_dropped => None,
            None if step.chain == "reject-it" => Some(End::Rejected(Refusal::NotCarried)),
            None if step.chain.ends_with("-stale") => Some(End::StalePin),
            None => None,
        }
    }

    fn read_rules(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        // A table that cannot be read now is read at the next unknown rule.
        let Ok(rules) = connection.rules(nft_family(self.family), TABLE) else { return };
        self.rules = rules.into_iter().map(|(handle, counter)| (handle, counter.and_then(end_by))).collect();
    }

    #[cfg(test)]
    pub(super) fn known(rules: impl IntoIterator<Item = (u64, Option<End>)>) -> Reasons {
        let rules = rules.into_iter().collect();
        Reasons { family: Family::V4, connection: None, rules, read: None }
    }
}

fn end_by(counter: String) -> Option<End> {
    let why = Refusal::COUNTED.into_iter().find(|why| crate::counter(*why) == counter)?;
    Some(if counter.starts_with("rejected-") { End::Rejected(why) } else { End::Dropped(why) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counted_refusal_is_known_by_its_counter() {
        for why in Refusal::COUNTED {
            let end = end_by(crate::counter(why).to_owned());
            assert!(end == Some(End::Rejected(why)) || end == Some(End::Dropped(why)), "{why:?}");
        }
        assert_eq!(end_by("another".to_owned()), None);
    }
}
