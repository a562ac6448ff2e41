//! The listener of `tracing`: asks `levels` once for each place in the code, so that a line below the level costs the
//! read of one number.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Instant, SystemTime};

use config::Logging;
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::subscriber::Interest;
use tracing_core::{Event, LevelFilter, Metadata, Subscriber, callsite};

use super::levels::Levels;
use super::line::Line;
use super::sink::Sink;

pub(super) struct Log {
    levels: RwLock<Levels>,
    sink: Arc<Sink>,
    /// As last configured.
    current: Mutex<Option<Logging>>,
}

impl Log {
    pub(super) fn new(sink: Sink) -> Log {
        Log { levels: RwLock::default(), sink: Arc::new(sink), current: Mutex::new(None) }
    }

    pub(super) fn to_standard_streams() -> Log {
        Log::new(Sink::new(std::io::stdout(), std::io::stderr()))
    }

    pub(super) fn sink(&self) -> Arc<Sink> {
        self.sink.clone()
    }

    pub(super) fn configure(&self, logging: &Logging) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref() == Some(logging) {
            return;
        }
        let levels = Levels::of(logging);
        if current.as_ref().map(Levels::of).as_ref() != Some(&levels) {
            self.set_levels(|now| *now = levels);
        }
        self.sink.configure(logging);
        *current = Some(logging.clone());
    }

    pub(super) fn set_verbosity(&self, level: u32) {
        self.set_levels(|levels| levels.verbosity = level);
    }

    pub(super) fn flush(&self, deadline: Instant) {
        self.sink.flush(deadline);
    }

    fn set_levels(&self, change: impl FnOnce(&mut Levels)) {
        change(&mut self.levels.write().unwrap_or_else(PoisonError::into_inner));
        callsite::rebuild_interest_cache();
    }

    fn with_levels<T>(&self, ask: impl FnOnce(&Levels) -> T) -> T {
        ask(&self.levels.read().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(super) struct Listener(pub(super) Arc<Log>);

impl Subscriber for Listener {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && self.0.with_levels(|levels| levels.admit(metadata))
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.0.with_levels(Levels::ceiling))
    }

    fn event(&self, event: &Event<'_>) {
        self.0.sink.write(&Line::of(event, SystemTime::now()));
    }

    // Spans are not used.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
