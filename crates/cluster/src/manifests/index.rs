//! Which document provides which object, kept up to date file by file. Pure.
//!
//! The rules: of several documents with the same object the first by path, then by place, provides it. A version
//! kept from an earlier reading, because its file is broken now, stands behind every document that holds the
//! object, and goes for good once there is one.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::ObjectKey;

/// One document says that it has the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) file: Arc<Path>,
    pub(super) document: u32,
    /// No document has the object now; this is the last good version.
    pub(super) kept: bool,
    /// Of the text the object was made from.
    pub(super) hash: u64,
}

impl Claim {
    fn rank(&self) -> (bool, &Path, u32) {
        (self.kept, &self.file, self.document)
    }
}

#[derive(Debug, Default)]
pub(super) struct Index {
    /// Who provides an object.
    first: HashMap<ObjectKey, Claim>,
    /// Who else has it, in order. Nearly always empty, hence apart.
    others: HashMap<ObjectKey, Vec<Claim>>,
}

impl Index {
    pub(super) fn provider(&self, key: &ObjectKey) -> Option<&Claim> {
        self.first.get(key)
    }

    pub(super) fn claims(&self, key: &ObjectKey) -> impl Iterator<Item = &Claim> {
        self.first.get(key).into_iter().chain(self.others.get(key).into_iter().flatten())
    }

    /// Documents that go unused: the object, who provides it, and the document.
    pub(super) fn unused(&self) -> impl Iterator<Item = (&ObjectKey, &Claim, &Claim)> {
        self.others.iter().flat_map(|(key, others)| {
            let first = self.first.get(key).into_iter();
            first.flat_map(move |first| others.iter().map(move |other| (key, first, other)))
        })
    }

    pub(super) fn add(&mut self, key: ObjectKey, claim: Claim) {
        let Some(first) = self.first.get_mut(&key) else {
            self.first.insert(key, claim);
            return;
        };
        let behind = match claim.rank() < first.rank() {
            true => std::mem::replace(first, claim),
            false => claim,
        };
        let others = self.others.entry(key).or_default();
        let at = others.partition_point(|other| other.rank() <= behind.rank());
        others.insert(at, behind);
    }

    /// The file no longer has the object, in whatever document.
    pub(super) fn retract(&mut self, key: &ObjectKey, file: &Path) {
        self.retain(key, |claim| *claim.file != *file);
    }

    /// What was kept is needed only while no document has the object.
    pub(super) fn drop_needless(&mut self, key: &ObjectKey) {
        if self.others.contains_key(key) && self.first.get(key).is_some_and(|first| !first.kept) {
            self.retain(key, |claim| !claim.kept);
        }
    }

    fn retain(&mut self, key: &ObjectKey, stays: impl Fn(&Claim) -> bool) {
        if let Some(others) = self.others.get_mut(key) {
            others.retain(&stays);
        }
        if self.first.get(key).is_some_and(|first| !stays(first)) {
            match self.others.get_mut(key).filter(|others| !others.is_empty()) {
                Some(others) => drop(self.first.insert(key.clone(), others.remove(0))),
                None => drop(self.first.remove(key)),
            }
        }
        if self.others.get(key).is_some_and(Vec::is_empty) {
            self.others.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn claim(file: &str, document: u32, kept: bool, hash: u64) -> Claim {
        Claim { file: Path::new(file).into(), document, kept, hash }
    }

    fn hashes(index: &Index, key: &ObjectKey) -> Vec<u64> {
        index.claims(key).map(|claim| claim.hash).collect()
    }

    #[test]
    fn claims_stand_in_order_however_they_come() {
        let key = ObjectKey::new(Kind::Service, "default", "web");
        let mut index = Index::default();
        for claim in [
            claim("b", 1, false, 3),
            claim("a", 0, true, 9),
            claim("a", 2, false, 2),
            // Of two in one document the first stays the first.
            claim("b", 1, false, 4),
            claim("a", 1, false, 1),
        ] {
            index.add(key.clone(), claim);
        }
        assert_eq!(hashes(&index, &key), [1, 2, 3, 4, 9]);
        index.drop_needless(&key);
        assert_eq!(hashes(&index, &key), [1, 2, 3, 4]);
        assert_eq!(index.unused().count(), 3);
        index.retract(&key, Path::new("a"));
        assert_eq!(hashes(&index, &key), [3, 4]);
        index.retract(&key, Path::new("b"));
        assert!(index.first.is_empty() && index.others.is_empty());
    }

    #[test]
    fn a_kept_version_stays_while_it_is_alone() {
        let key = ObjectKey::new(Kind::Service, "default", "web");
        let mut index = Index::default();
        index.add(key.clone(), claim("a", 1, true, 1));
        index.drop_needless(&key);
        assert_eq!(hashes(&index, &key), [1]);
    }
}
