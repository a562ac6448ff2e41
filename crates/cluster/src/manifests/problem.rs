//! What is wrong with a manifest, said so that the one who wrote it finds the place and knows what follows from it.

use std::fmt;
use std::path::PathBuf;

/// One thing that keeps part of the manifests from being used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestProblem {
    pub file: PathBuf,
    /// Which document of the file, from 1.
    pub document: Option<usize>,
    /// Kind and name of the object, if they could be read.
    pub object: Option<String>,
    /// Line and column in the file, from 1.
    pub position: Option<(u64, u64)>,
    pub field: Option<String>,
    pub message: String,
    /// `None`: no object is lost by it.
    pub consequence: Option<Consequence>,
}

/// What becomes of the objects that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// The manifests were never read whole so far, and a part of them must not replace the rules there are.
    NothingProgrammed,
    LastGoodStays,
    /// A healthy document has the same object.
    OtherIsUsed,
    NotProgrammed,
    /// Only entries of its lists could not be used.
    RestIsUsed,
}

impl ManifestProblem {
    pub(super) fn of_file(file: impl Into<PathBuf>, message: impl Into<String>) -> ManifestProblem {
        ManifestProblem {
            file: file.into(),
            document: None,
            object: None,
            position: None,
            field: None,
            message: message.into(),
            consequence: None,
        }
    }

    /// Where it is: the file, and as far as known the document and the object.
    pub fn place(&self) -> String {
        let document = self.document.map(|number| format!(": document {number}")).unwrap_or_default();
        let object = self.object.as_ref().map(|object| format!(": {object}")).unwrap_or_default();
        format!("{}{document}{object}", self.file.display())
    }

    /// Whether the two are about the same thing, which may be wrong in another way, or at another line, by now.
    fn is_about(&self, other: &ManifestProblem) -> bool {
        let same_object = match (&self.object, &other.object) {
            (Some(one), Some(other)) => one == other,
            _ => self.document == other.document,
        };
        self.file == other.file && same_object
    }
}

/// What is in `now` and was not in `before`, and what of `before` is solved.
pub(super) fn difference(
    before: &[ManifestProblem],
    now: &[ManifestProblem],
) -> (Vec<ManifestProblem>, Vec<ManifestProblem>) {
    let new = now.iter().filter(|problem| !before.contains(problem)).cloned().collect();
    let solved = before.iter().filter(|problem| !now.iter().any(|now| now.is_about(problem)));
    (new, solved.cloned().collect())
}

impl fmt::Display for ManifestProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some((line, column)) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        if let Some(document) = self.document {
            write!(f, ": document {document}")?;
        }
        if let Some(object) = &self.object {
            write!(f, ": {object}")?;
        }
        if let Some(field) = &self.field {
            write!(f, ": {field}")?;
        }
        write!(f, ": {}", self.message)?;
        match self.consequence {
            Some(consequence) => write!(f, "; {consequence}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Consequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Consequence::NothingProgrammed => {
                "nothing is programmed until this is fixed or removed; rules of an earlier run stay as they are"
            }
            Consequence::LastGoodStays => "its last good version stays in use",
            Consequence::OtherIsUsed => "another document provides it",
            Consequence::NotProgrammed => "it is not programmed",
            Consequence::RestIsUsed => "the rest of it is used",
        })
    }
}

impl std::error::Error for ManifestProblem {}
