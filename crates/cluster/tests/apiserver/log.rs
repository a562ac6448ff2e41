//! What the source logs, kept for the tests. One log for all tests: look for names that only one of them uses.

use std::fmt::{Debug, Write};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

static LINES: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());

pub(crate) fn keep() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Keeper).unwrap());
}

/// Lines of warnings and errors that hold all of these words.
pub(crate) fn complaints(words: &[&str]) -> Vec<String> {
    let lines = LINES.lock().unwrap();
    let wanted = lines
        .iter()
        .filter(|(level, line)| *level <= Level::WARN && words.iter().all(|word| line.contains(word)));
    wanted.map(|(_, line)| line.clone()).collect()
}

/// Wait for a line like those of [`complaints`].
pub(crate) fn await_complaint(words: &[&str]) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while complaints(words).is_empty() {
        assert!(Instant::now() < deadline, "nobody complained of {words:?}\n{:#?}", complaints(&[]));
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Lines of any level that hold all of these words.
pub(crate) fn lines(words: &[&str]) -> Vec<String> {
    let lines = LINES.lock().unwrap();
    let wanted = lines.iter().filter(|(_, line)| words.iter().all(|word| line.contains(word)));
    wanted.map(|(_, line)| line.clone()).collect()
}

struct Keeper;

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("cluster")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        LINES.lock().unwrap().push((*event.metadata().level(), line.0));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}
