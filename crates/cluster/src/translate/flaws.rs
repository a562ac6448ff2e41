//! Entries of an object that were left out because nothing can be made of them: how many, and the first few in words.

use std::fmt;

use super::Invalid;

/// Once these are fixed, the others are reported.
const EXAMPLES: usize = 3;

/// Nearly always empty, and then it costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flaws {
    pub examples: Vec<Invalid>,
    pub count: usize,
}

impl Flaws {
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The value, or nothing and a note why.
    pub(super) fn take<T>(&mut self, read: Result<T, Invalid>) -> Option<T> {
        read.map_err(|invalid| self.note(invalid)).ok()
    }

    pub(super) fn note(&mut self, invalid: Invalid) {
        self.count += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(invalid);
        }
    }
}

impl fmt::Display for Flaws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, example) in self.examples.iter().enumerate() {
            write!(f, "{}{example}", if i == 0 { "" } else { "; " })?;
        }
        match self.count.saturating_sub(self.examples.len()) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}
