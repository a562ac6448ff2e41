//! Which chains are written while the tables are saved for a question: those may be as they were or as they will be.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Of one family.
#[derive(Default)]
pub(super) struct Writes {
    count: u64,
    looks: Vec<Weak<Mutex<HashSet<String>>>>,
}

/// The chains that were written, or began to be, since somebody was told what they should hold.
#[derive(Default)]
pub(super) struct Since {
    /// Writes before that.
    pub(super) count: u64,
    chains: Arc<Mutex<HashSet<String>>>,
}

impl Writes {
    pub(super) fn since_now(&mut self) -> Since {
        self.looks.retain(|look| look.strong_count() > 0);
        let since = Since { count: self.count, chains: Arc::default() };
        self.looks.push(Arc::downgrade(&since.chains));
        since
    }

    /// A script is about to be carried out.
    pub(super) fn note(&mut self, script: &str) {
        self.count += 1;
        for look in self.looks.iter().filter_map(Weak::upgrade) {
            let mut chains = look.lock().unwrap_or_else(PoisonError::into_inner);
            chains.extend(script.lines().filter_map(written_chain).map(str::to_owned));
        }
    }
}

impl Since {
    /// To be asked for after the tables were saved. A copy, so that no write has to wait.
    pub(super) fn chains(&self) -> HashSet<String> {
        self.chains.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Every chain that a script fills, empties or removes is named first, except those of others, in which it inserts rules.
fn written_chain(line: &str) -> Option<&str> {
    line.strip_prefix(':').or_else(|| line.strip_prefix("-I "))?.split(' ').next()
}
