//! Where a reflector stands: with the apiserver, with its receiver, and in what the receiver holds of its kind.

/// What to ask the apiserver for next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// A list; one from the apiserver's cache will do.
    List,
    /// A list that is not older than anything seen here: the last version was too old, or a watch missed something.
    ListFromQuorum,
    /// What changed since this version.
    Watch(String),
    /// The same, and a list when this watch is over: something may have gone without our knowing what.
    WatchThenList(String),
}

impl Position {
    /// How far we have come; `None` if a list is needed.
    pub(super) fn version(&self) -> Option<&str> {
        match self {
            Position::List | Position::ListFromQuorum => None,
            Position::Watch(version) | Position::WatchThenList(version) => Some(version),
        }
    }

    pub(super) fn is_list(&self) -> bool {
        self.version().is_none()
    }

    /// The watch has come so far.
    pub(super) fn advance(&mut self, to: String) {
        match self {
            Position::List | Position::ListFromQuorum => {}
            Position::Watch(version) | Position::WatchThenList(version) => *version = to,
        }
    }

    /// Have a list follow the watch.
    pub(super) fn list_after_watch(&mut self) {
        if let Position::Watch(version) = self {
            *self = Position::WatchThenList(std::mem::take(version));
        }
    }

    /// The watch is over.
    pub(super) fn end_watch(&mut self) {
        if let Position::WatchThenList(_) = self {
            *self = Position::ListFromQuorum;
        }
    }

    /// There is nothing to watch: only a list shows whether that changed.
    pub(super) fn drop_version(&mut self) {
        *self = match self {
            Position::List | Position::Watch(_) => Position::List,
            Position::ListFromQuorum | Position::WatchThenList(_) => Position::ListFromQuorum,
        };
    }
}

/// What the receiver was told about the kind as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing: it waits.
    Starting,
    /// It does not have to wait any longer.
    Synced,
    /// The same, but only because the apiserver denies us a kind that we can do without. That was logged.
    Denied,
}

/// What the receiver may hold of the kind, and with it what a new list may have to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    Nothing,
    /// Objects of another source that delivered before us.
    Inherited,
    /// Objects that we handed over, and maybe inherited ones.
    Delivered,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_follows_a_watch_that_missed_something() {
        let mut position = Position::Watch("5".into());
        position.end_watch();
        assert_eq!(position, Position::Watch("5".into()), "it goes on where it was");
        position.list_after_watch();
        position.advance("6".into());
        assert_eq!(position.version(), Some("6"), "the watch is not over yet");
        position.end_watch();
        assert_eq!(position, Position::ListFromQuorum);
    }

    #[test]
    fn a_needed_list_stays_needed() {
        for list in [Position::List, Position::ListFromQuorum] {
            let mut position = list.clone();
            position.advance("5".into());
            position.list_after_watch();
            position.end_watch();
            position.drop_version();
            assert_eq!(position, list);
        }
    }

    #[test]
    fn a_dropped_version_does_not_forget_that_something_was_missed() {
        let mut watch = Position::Watch("5".into());
        watch.drop_version();
        assert_eq!(watch, Position::List);
        let mut watch = Position::WatchThenList("5".into());
        watch.drop_version();
        assert_eq!(watch, Position::ListFromQuorum);
    }
}
