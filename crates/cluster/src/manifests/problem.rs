//! What is wrong with a manifest, said so that the one who wrote it finds the place.

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
        }
    }
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
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ManifestProblem {}
