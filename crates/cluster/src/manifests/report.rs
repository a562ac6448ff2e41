//! The problems of a source as they are now, each with what follows from it.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use super::file::FileRecord;
use super::index::Claim;
use super::{Consequence, Loaded, ManifestProblem, ManifestSource};
use crate::{Kind, ObjectKey};

impl ManifestSource {
    /// Everything that is wrong, ordered by file and document.
    pub(super) fn problems(&self) -> Vec<ManifestProblem> {
        let faulty = self.files.iter().filter(|(_, record)| !record.problems.is_empty());
        let lost = faulty.flat_map(|(path, record)| self.lost(path, record));
        let unused = self.index.unused().map(|(key, first, second)| twice(key, first, second));
        let flaws = self.files.values().flat_map(|record| record.flaws.iter().cloned());
        let mut problems: Vec<ManifestProblem> = lost.chain(unused).chain(flaws).collect();
        problems.sort_by(|a, b| (&a.file, a.document).cmp(&(&b.file, b.document)));
        problems
    }

    /// The path itself is out of reach, for now: someone may be about to put it back.
    /// Rules without a source are better than none.
    pub(super) fn unreachable(&self, error: &io::Error) -> Loaded {
        let consequence = self.unless_incomplete(Consequence::LastGoodStays);
        let message = format!("cannot be read ({error})");
        let root = ManifestProblem { consequence, ..ManifestProblem::of_file(&self.path, message) };
        let problems = std::iter::once(root).chain(self.problems()).collect();
        Loaded { changes: Vec::new(), problems, is_complete: self.is_complete }
    }

    fn unless_incomplete(&self, consequence: Consequence) -> Option<Consequence> {
        Some(if self.is_complete { consequence } else { Consequence::NothingProgrammed })
    }

    fn lost(&self, path: &Path, record: &FileRecord) -> Vec<ManifestProblem> {
        let kept: HashSet<&ObjectKey> = self.kept(path, record).collect();
        // A folder may be unreadable too.
        let mut inside = self.files.iter().filter(|(file, _)| file.starts_with(path));
        let keeps_any = inside.any(|(file, record)| self.kept(file, record).next().is_some());
        let consequence = |problem: &ManifestProblem| match problem.object.as_deref().and_then(key_of) {
            Some(key) if kept.contains(&key) => Consequence::LastGoodStays,
            Some(key) if self.index.provider(&key).is_some() => Consequence::OtherIsUsed,
            // It is unknown which object it was, so the file loses none.
            None if keeps_any => Consequence::LastGoodStays,
            _ => Consequence::NotProgrammed,
        };
        let problems = record.problems.iter();
        problems
            .map(|problem| {
                let consequence = self.unless_incomplete(consequence(problem));
                ManifestProblem { consequence, ..problem.clone() }
            })
            .collect()
    }

    fn kept<'a>(&self, file: &Path, record: &'a FileRecord) -> impl Iterator<Item = &'a ObjectKey> {
        let is_kept = |claim: &Claim| claim.kept && *claim.file == *file;
        record.keys.iter().filter(move |key| self.index.provider(key).is_some_and(is_kept))
    }
}

/// `Service default/web` as a key.
fn key_of(object: &str) -> Option<ObjectKey> {
    let (kind, path) = object.split_once(' ')?;
    let kind = Kind::ALL.into_iter().find(|known| known.to_string() == kind)?;
    Some(ObjectKey { kind, path: path.into() })
}

fn twice(key: &ObjectKey, first: &Claim, second: &Claim) -> ManifestProblem {
    let message = format!(
        "is already in {} (document {}), which is used; remove one of the two",
        first.file.display(),
        first.document
    );
    ManifestProblem {
        document: Some(second.document as usize),
        object: Some(key.to_string()),
        ..ManifestProblem::of_file(&*second.file, message)
    }
}
