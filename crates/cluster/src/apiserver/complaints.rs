//! Objects of one kind that cannot be used, in whole or in part: which ones, and what is said about them. Pure.
//!
//! Anybody who may create a Service can make one of these, and change it as often as he likes. So an object is complained about
//! once, and again only when something else is wrong with it; complaints keep to a rate, of which each namespace and each object
//! has a share; those that have to wait are made later; and only so many objects are remembered.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::SharedAllowance;
use crate::allowance::namespace_of;

/// Objects that are remembered.
const MOST_OBJECTS: usize = 4096;
/// How often the complaints that wait are looked through.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// How much of an object cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it: its last usable version is kept.
    Whole,
    /// Entries of its lists; the rest is used.
    Part,
}

impl Extent {
    pub const ALL: [Extent; 2] = [Extent::Whole, Extent::Part];
}

/// What to say about an object now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Nothing,
    /// So many complaints had to wait, or were overtaken by others about the same object, since the last one was made.
    Complaint {
        left_out: u64,
    },
    Resolved,
}

/// A complaint that had to wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Late {
    pub(super) path: Arc<str>,
    pub(super) extent: Extent,
    pub(super) why: Box<str>,
    pub(super) left_out: u64,
}

#[derive(Debug, Default)]
pub(super) struct Complaints {
    open: HashMap<Arc<str>, Complaint>,
    /// Of the open ones, in the order of [`Extent::ALL`].
    counts: [usize; Extent::ALL.len()],
    /// Of the open ones, by namespace.
    sizes: HashMap<Box<str>, usize>,
    hasher: RandomState,
    allowance: SharedAllowance,
    left_out: u64,
    /// When those that wait were last looked through, and all of them had to go on waiting.
    looked: Option<Instant>,
}

#[derive(Debug)]
struct Complaint {
    extent: Extent,
    /// Of the words.
    hash: u64,
    /// The words, as long as they wait.
    waits: Option<Box<str>>,
    /// Something about the object was said.
    is_known: bool,
}

impl Complaints {
    /// Something is wrong with an object. One without a readable name has the empty path.
    pub(super) fn complain(&mut self, path: &Arc<str>, extent: Extent, why: &str, now: Instant) -> Word {
        let hash = self.hasher.hash_one(why);
        let open = self.open.get(path);
        let is_same = open.is_some_and(|open| (open.extent, open.hash) == (extent, hash));
        if is_same && open.is_some_and(|open| open.waits.is_none()) {
            return Word::Nothing;
        }
        let is_told = self.allowance.take(path, now);
        let is_known = is_told || open.is_some_and(|open| open.is_known);
        let waits = (!is_told).then(|| why.into());
        self.remember(path, Complaint { extent, hash, waits, is_known });
        if is_told {
            return Word::Complaint { left_out: std::mem::take(&mut self.left_out) };
        }
        self.left_out += u64::from(!is_same);
        Word::Nothing
    }

    /// One that had to wait and may be made now.
    pub(super) fn take_late(&mut self, now: Instant) -> Option<Late> {
        let is_early = |then: Instant| now.saturating_duration_since(then) < BETWEEN_LOOKS;
        if self.open.is_empty() || self.looked.is_some_and(is_early) {
            return None;
        }
        let waiting = self.open.iter_mut().filter(|(_, open)| open.waits.is_some());
        for (path, open) in waiting {
            if self.allowance.take(path, now) {
                open.is_known = true;
                let why = open.waits.take().unwrap_or_default();
                let left_out = std::mem::take(&mut self.left_out).saturating_sub(1);
                return Some(Late { path: path.clone(), extent: open.extent, why, left_out });
            }
        }
        self.looked = Some(now);
        None
    }

    /// Nothing is wrong with an object any more. Nearly always nothing was.
    pub(super) fn resolve(&mut self, path: &str) -> Word {
        match self.remove(path) {
            Some(Complaint { is_known: true, .. }) => Word::Resolved,
            _ => Word::Nothing,
        }
    }

    /// The object is gone, and with it what was wrong.
    pub(super) fn forget(&mut self, path: &str) {
        self.remove(path);
    }

    fn remove(&mut self, path: &str) -> Option<Complaint> {
        if self.open.is_empty() {
            return None;
        }
        let gone = self.open.remove(path)?;
        self.discount(path, gone.extent);
        Some(gone)
    }

    fn discount(&mut self, path: &str, extent: Extent) {
        self.counts[extent as usize] -= 1;
        if let Some(size) = self.sizes.get_mut(namespace_of(path)) {
            *size -= 1;
            if *size == 0 {
                self.sizes.remove(namespace_of(path));
            }
        }
    }

    /// If there is no room left, one of the namespace that takes up most of it is forgotten.
    fn remember(&mut self, path: &Arc<str>, complaint: Complaint) {
        if self.open.len() >= MOST_OBJECTS && !self.open.contains_key(path) {
            let Some(victim) = self.dispensable(namespace_of(path)) else { return };
            self.remove(&victim);
        }
        self.counts[complaint.extent as usize] += 1;
        *self.sizes.entry(namespace_of(path).into()).or_default() += 1;
        if let Some(old) = self.open.insert(path.clone(), complaint) {
            self.discount(path, old.extent);
        }
    }

    /// An object of the namespace that has most of them, unless that is this one.
    fn dispensable(&self, namespace: &str) -> Option<Arc<str>> {
        let own = self.sizes.get(namespace).copied().unwrap_or_default();
        let largest = self.sizes.iter().max_by_key(|(_, size)| **size);
        let (largest, _) = largest.filter(|(_, size)| **size > own + 1)?;
        self.open.keys().find(|path| namespace_of(path) == &**largest).cloned()
    }

    /// A complete list: whatever is not in it is gone.
    pub(super) fn retain(&mut self, listed: &HashSet<Arc<str>>) {
        let gone: Vec<Arc<str>> = self.open.keys().filter(|path| !listed.contains(*path)).cloned().collect();
        gone.iter().for_each(|path| self.forget(path));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// How many objects there are of this sort.
    pub(super) fn count(&self, extent: Extent) -> usize {
        self.counts[extent as usize]
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
        assert_eq!(complaints.resolve(&path), Word::Nothing);
        assert_eq!(complaints.complain(&path, Whole, "no address", now), TOLD);
        for _ in 0..100 {
            assert_eq!(complaints.complain(&path, Whole, "no address", now), Word::Nothing);
        }
        assert_eq!(complaints.complain(&path, Part, "no address", now), TOLD);
        assert_eq!(complaints.complain(&path, Part, "no port", now), TOLD);
        assert_eq!((complaints.count(Whole), complaints.count(Part)), (0, 1));
        assert_eq!(complaints.resolve(&path), Word::Resolved);
        assert_eq!(complaints.resolve(&path), Word::Nothing);
        assert!(complaints.is_empty());
    }

    fn told(word: Word) -> u64 {
        u64::from(matches!(word, Word::Complaint { .. }))
    }

    /// Whatever one object or one namespace does.
    #[test]
    fn others_are_complained_about_at_once_beside_one_that_never_rests() {
        let start = Instant::now();
        let mut complaints = Complaints::default();
        let (bad, neighbour): (Arc<str>, Arc<str>) = ("default/a".into(), "default/b".into());
        let said: u64 = (0..1000)
            .map(|number| told(complaints.complain(&bad, Part, &format!("port {number}"), start)))
            .sum();
        assert!((1..10).contains(&said), "{said}");
        let word = complaints.complain(&neighbour, Part, "no port", start);
        assert_eq!(word, Word::Complaint { left_out: 1000 - said });
        for number in 0..1000 {
            let path: Arc<str> = format!("default/{number}").into();
            complaints.complain(&path, Whole, "no address", start);
        }
        assert_eq!(told(complaints.complain(&"other/a".into(), Whole, "no address", start)), 1);
        assert_eq!(complaints.resolve(&bad), Word::Resolved, "what was said is over");
    }

    #[test]
    fn what_had_to_wait_is_said_later_and_once() {
        let start = Instant::now();
        let mut complaints = Complaints::default();
        let names: Vec<Arc<str>> = (0..30).map(|number| format!("default/{number}").into()).collect();
        let mut said: Vec<Arc<str>> = names
            .iter()
            .filter(|path| told(complaints.complain(path, Whole, "no address", start)) == 1)
            .cloned()
            .collect();
        assert!(said.len() < names.len(), "{said:?}");
        assert_eq!(complaints.take_late(start), None);
        let gone = names.iter().find(|path| !said.contains(path)).unwrap();
        complaints.forget(gone);
        for minute in 1..60 {
            let now = start + Duration::from_secs(60 * minute);
            while let Some(late) = complaints.take_late(now) {
                assert_eq!((late.extent, &*late.why), (Whole, "no address"));
                said.push(late.path);
            }
            said.iter().for_each(|path| {
                assert_eq!(complaints.complain(path, Whole, "no address", now), Word::Nothing, "{path}");
            });
        }
        said.sort_unstable();
        let mut expected: Vec<Arc<str>> = names.iter().filter(|path| *path != gone).cloned().collect();
        expected.sort_unstable();
        assert_eq!(said, expected);
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
        complaints.forget("default/7");
        assert!(complaints.is_empty());
    }

    #[test]
    fn a_namespace_that_fills_the_memory_leaves_room_for_others() {
        let mut complaints = Complaints::default();
        let now = Instant::now();
        for (namespace, count) in [("full", 2 * MOST_OBJECTS), ("other", 100), ("full", 100)] {
            for number in 0..count {
                let path: Arc<str> = format!("{namespace}/{number}").into();
                complaints.complain(&path, Whole, "no address", now);
            }
        }
        assert_eq!(complaints.count(Whole), MOST_OBJECTS);
        let others = complaints.open.keys().filter(|path| namespace_of(path) == "other").count();
        assert_eq!(others, 100);
        assert_eq!(complaints.sizes.values().sum::<usize>(), MOST_OBJECTS);
        complaints.retain(&HashSet::new());
        assert!(complaints.sizes.is_empty() && complaints.is_empty());
    }
}
