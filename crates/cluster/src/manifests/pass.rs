//! One pass over the files that changed: from what was handed over before to what the index says after. Pure.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::file::{FileRecord, Found, Reading};
use super::index::{Claim, Index};
use crate::{Object, ObjectChange, ObjectKey};

pub(super) struct Pass<'a> {
    pub(super) index: &'a mut Index,
    /// The version of each touched object that was handed over, by its hash. An untouched one has that of its
    /// provider.
    handed: HashMap<ObjectKey, Option<u64>>,
    /// Objects that were parsed in this pass and are not handed over yet.
    parsed: HashMap<(ObjectKey, u64), Object>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(index: &'a mut Index) -> Pass<'a> {
        Pass { index, handed: HashMap::new(), parsed: HashMap::new() }
    }

    /// Note that the object goes out right now; false if another version of it did already.
    pub(super) fn hand_over(&mut self, key: &ObjectKey, hash: u64) -> bool {
        let is_new = !self.handed.contains_key(key);
        if is_new {
            self.handed.insert(key.clone(), Some(hash));
        }
        is_new
    }

    /// What the file is known to hold, by the hash of its text.
    pub(super) fn known(&self, file: &Path, record: Option<&FileRecord>) -> HashMap<u64, ObjectKey> {
        let keys = record.map(|record| &*record.keys).unwrap_or_default();
        let of_file = |key| self.index.claims(key).filter(|claim| *claim.file == *file);
        // What is wrong with an object is only known of those that were parsed.
        let flaws = record.map(|record| &*record.flaws).unwrap_or_default();
        let flawed: HashSet<&str> = flaws.iter().filter_map(|flaw| flaw.object.as_deref()).collect();
        let is_sound = |key: &&ObjectKey| flawed.is_empty() || !flawed.contains(&*key.to_string());
        keys.iter()
            .filter(is_sound)
            .flat_map(|key| of_file(key).map(|claim| (claim.hash, key.clone())))
            .collect()
    }

    /// The file was read again, or is gone (`None`).
    pub(super) fn replace(
        &mut self,
        file: &Arc<Path>,
        old: Option<FileRecord>,
        reading: Option<Reading>,
    ) -> Option<FileRecord> {
        let old_keys = old.map(|old| old.keys).unwrap_or_default();
        let kept = match &reading {
            Some(reading) if !reading.problems.is_empty() => self.kept(file, &old_keys, &reading.found),
            _ => Vec::new(),
        };
        for key in &old_keys {
            self.touch(key);
            self.index.retract(key, file);
        }
        let Reading { stamp, found, problems, flaws } = reading?;
        let mut keys = Vec::with_capacity(found.len() + kept.len());
        for Found { key, hash, document, object } in found {
            if let Some(object) = object {
                self.parsed.insert((key.clone(), hash), *object);
            }
            keys.push(key.clone());
            self.claim(key, Claim { file: file.clone(), document, kept: false, hash });
        }
        for (key, claim) in kept {
            keys.push(key.clone());
            self.claim(key, claim);
        }
        Some(FileRecord { stamp, keys, problems, flaws })
    }

    fn claim(&mut self, key: ObjectKey, claim: Claim) {
        self.touch(&key);
        self.index.add(key, claim);
    }

    fn touch(&mut self, key: &ObjectKey) {
        if !self.handed.contains_key(key) {
            let in_use = self.index.provider(key).map(|claim| claim.hash);
            self.handed.insert(key.clone(), in_use);
        }
    }

    /// What of the file is in use and not in it now.
    fn kept(&self, file: &Path, keys: &[ObjectKey], found: &[Found]) -> Vec<(ObjectKey, Claim)> {
        let healthy: HashSet<&ObjectKey> = found.iter().map(|found| &found.key).collect();
        let in_use = |key: &ObjectKey, claim: &Claim| {
            self.handed.get(key).is_none_or(|handed| *handed == Some(claim.hash))
        };
        let mut seen = HashSet::new();
        let lost = keys.iter().filter(|key| !healthy.contains(key) && seen.insert(*key));
        lost.filter_map(|key| {
            let claim =
                self.index.provider(key).filter(|claim| *claim.file == *file && in_use(key, claim))?;
            Some((key.clone(), Claim { kept: true, ..claim.clone() }))
        })
        .collect()
    }

    /// Objects that came to be provided by a file in which they were not parsed this time.
    pub(super) fn missing(&mut self) -> BTreeMap<Arc<Path>, Vec<ObjectKey>> {
        let mut missing: BTreeMap<_, Vec<ObjectKey>> = BTreeMap::new();
        for (key, handed) in &self.handed {
            self.index.drop_needless(key);
            if let Some(claim) = self.index.provider(key)
                && *handed != Some(claim.hash)
                && !self.parsed.contains_key(&(key.clone(), claim.hash))
            {
                missing.entry(claim.file.clone()).or_default().push(key.clone());
            }
        }
        missing
    }

    /// The steps that lead to what the index says.
    pub(super) fn finish(mut self) -> Vec<ObjectChange> {
        let mut gone = Vec::new();
        let mut applied = Vec::new();
        for (key, handed) in self.handed {
            match self.index.provider(&key) {
                Some(claim) if handed == Some(claim.hash) => {}
                Some(claim) => {
                    let object = self.parsed.remove(&(key, claim.hash));
                    applied.extend(object.map(ObjectChange::Apply));
                }
                None => gone.extend(handed.map(|_| ObjectChange::Delete(key))),
            }
        }
        gone.append(&mut applied);
        gone
    }
}
