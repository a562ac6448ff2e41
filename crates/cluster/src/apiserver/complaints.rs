//! Objects of one kind that cannot be used, in whole or in part: which ones, and what is said about them. Pure.
//!
//! Anybody who may create a Service can make one of these, and change it as often as he likes. So an object is complained about
//! once, and again only when something else is wrong with it; all complaints together keep to a rate; and only so many
//! objects are remembered.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Objects that are remembered.
const MOST_OBJECTS: usize = 4096;
/// Complaints at once, and then one per [`PACE`].
const BURST: u32 = 20;
const PACE: Duration = Duration::from_secs(15);

/// How much of an object cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it: its last usable version stays in force.
    Whole,
    /// Entries of its lists; the rest of it is in force.
    Part,
}

impl Extent {
    pub const ALL: [Extent; 2] = [Extent::Whole, Extent::Part];
}

/// What to say about an object now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Nothing,
    /// So many complaints about other objects were left out before this one.
    Complaint {
        left_out: u64,
    },
    Resolved,
}

#[derive(Debug)]
pub(super) struct Complaints {
    open: HashMap<Arc<str>, Complaint>,
    /// Of the open ones, in the order of [`Extent::ALL`].
    counts: [usize; Extent::ALL.len()],
    hasher: RandomState,
    left_out: u64,
    /// What may be said, up to [`BURST`], and when that was reckoned.
    allowance: u32,
    reckoned: Option<Instant>,
}

#[derive(Debug)]
struct Complaint {
    extent: Extent,
    /// Of the words.
    hash: u64,
    is_told: bool,
}

impl Default for Complaints {
    fn default() -> Complaints {
        Complaints {
            open: HashMap::new(),
            counts: [0; Extent::ALL.len()],
            hasher: RandomState::new(),
            left_out: 0,
            allowance: BURST,
            reckoned: None,
        }
    }
}

impl Complaints {
    /// Something is wrong with an object. One that nobody can name has the empty path.
    pub(super) fn complain(&mut self, path: &Arc<str>, extent: Extent, why: &str, now: Instant) -> Word {
        let hash = self.hasher.hash_one(why);
        let same = |open: &Complaint| open.is_told && (open.extent, open.hash) == (extent, hash);
        if self.open.get(path).is_some_and(same) {
            return Word::Nothing;
        }
        let is_told = self.is_allowed(now);
        if self.open.len() < MOST_OBJECTS || self.open.contains_key(path) {
            let old = self.open.insert(path.clone(), Complaint { extent, hash, is_told });
            old.into_iter().for_each(|old| self.counts[old.extent as usize] -= 1);
            self.counts[extent as usize] += 1;
        }
        if is_told {
            return Word::Complaint { left_out: std::mem::take(&mut self.left_out) };
        }
        self.left_out += 1;
        Word::Nothing
    }

    /// Nothing is wrong with an object. Nearly always nothing was.
    pub(super) fn is_fine(&mut self, path: &str) -> Word {
        match self.forget(path) {
            Some(Complaint { is_told: true, .. }) => Word::Resolved,
            _ => Word::Nothing,
        }
    }

    /// The object is gone, and with it what was wrong.
    pub(super) fn is_gone(&mut self, path: &str) {
        self.forget(path);
    }

    fn forget(&mut self, path: &str) -> Option<Complaint> {
        if self.open.is_empty() {
            return None;
        }
        let gone = self.open.remove(path)?;
        self.counts[gone.extent as usize] -= 1;
        Some(gone)
    }

    /// A complete list: whatever is not in it is gone.
    pub(super) fn retain(&mut self, listed: &HashSet<Arc<str>>) {
        let counts = &mut self.counts;
        self.open.retain(|path, open| {
            let stays = listed.contains(path);
            counts[open.extent as usize] -= usize::from(!stays);
            stays
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// How many objects there are of this sort.
    pub(super) fn count(&self, extent: Extent) -> usize {
        self.counts[extent as usize]
    }

    fn is_allowed(&mut self, now: Instant) -> bool {
        let since = self.reckoned.map_or(Duration::ZERO, |then| now.saturating_duration_since(then));
        let earned = u32::try_from(since.as_secs() / PACE.as_secs()).unwrap_or(u32::MAX);
        if earned > 0 || self.reckoned.is_none() {
            self.allowance = self.allowance.saturating_add(earned).min(BURST);
            self.reckoned = Some(now);
        }
        let is_allowed = self.allowance > 0;
        self.allowance = self.allowance.saturating_sub(1);
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::Extent::{Part, Whole};
    use super::*;

    const TOLD: Word = Word::Complaint { left_out: 0 };

    #[test]
    fn an_object_is_complained_about_once_until_something_else_is_wrong() {
        let now = Instant::now();
        let mut complaints = Complaints::default();
        let path: Arc<str> = "default/a".into();
        assert_eq!(complaints.is_fine(&path), Word::Nothing);
        assert_eq!(complaints.complain(&path, Whole, "no address", now), TOLD);
        for _ in 0..100 {
            assert_eq!(complaints.complain(&path, Whole, "no address", now), Word::Nothing);
        }
        assert_eq!(complaints.complain(&path, Part, "no address", now), TOLD);
        assert_eq!(complaints.complain(&path, Part, "no port", now), TOLD);
        assert_eq!((complaints.count(Whole), complaints.count(Part)), (0, 1));
        assert_eq!(complaints.is_fine(&path), Word::Resolved);
        assert_eq!(complaints.is_fine(&path), Word::Nothing);
        assert!(complaints.is_empty());
    }

    #[test]
    fn complaints_keep_to_a_rate_and_those_left_out_are_counted() {
        let start = Instant::now();
        let mut complaints = Complaints::default();
        let path: Arc<str> = "default/a".into();
        let mut told = 0;
        for number in 0..1000 {
            let word = complaints.complain(&path, Part, &format!("port {number}"), start);
            told += u32::from(word != Word::Nothing);
        }
        assert_eq!(told, BURST);
        let later = start + PACE;
        let word = complaints.complain(&path, Part, "port 1000", later);
        assert_eq!(word, Word::Complaint { left_out: 1000 - u64::from(BURST) });
        assert_eq!(complaints.complain(&path, Part, "port 1001", later), Word::Nothing);
        assert_eq!(complaints.is_fine(&path), Word::Nothing, "nobody heard of the last complaint");
    }

    #[test]
    fn only_so_many_objects_are_remembered() {
        let mut complaints = Complaints::default();
        for number in 0..2 * MOST_OBJECTS {
            let path: Arc<str> = format!("default/{number}").into();
            complaints.complain(&path, Whole, "no address", Instant::now());
        }
        assert_eq!(complaints.count(Whole), MOST_OBJECTS);
        complaints.retain(&HashSet::from(["default/7".into()]));
        assert_eq!(complaints.count(Whole), 1);
        complaints.is_gone("default/7");
        assert!(complaints.is_empty());
    }
}
