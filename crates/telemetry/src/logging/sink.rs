//! Where lines go: one stream or two, at once or collected; and the thread that comes back for what was held.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use config::{LogFormat, Logging};

use super::line::{Line, Said, Severity, Value};
use super::outlet::{Drain, Outlet};
use super::recent::Recent;
use super::{json, text};

/// How often a reader that stalls is tried again.
const PATIENCE: Duration = Duration::from_millis(100);

pub(super) struct Sink {
    streams: Mutex<Streams>,
    /// Something is held back.
    held: Condvar,
}

struct Streams {
    format: LogFormat,
    /// Whether what is no error goes to stdout.
    split: bool,
    flush_frequency: Duration,
    out: Outlet,
    err: Outlet,
    recent: Recent,
}

impl Sink {
    pub(super) fn new(out: impl Drain + 'static, err: impl Drain + 'static) -> Sink {
        let streams = Streams {
            format: LogFormat::Text,
            split: false,
            flush_frequency: Duration::from_secs(5),
            out: Outlet::new(out),
            err: Outlet::new(err),
            recent: Recent::default(),
        };
        Sink { streams: Mutex::new(streams), held: Condvar::new() }
    }

    pub(super) fn configure(&self, logging: &Logging) {
        let stream = match logging.format {
            LogFormat::Text => &logging.text,
            LogFormat::Json => &logging.json,
        };
        let mut streams = self.lock();
        // What was collected so far is in the old shape, which is no reason to hold it longer.
        streams.flush();
        (streams.format, streams.split) = (logging.format, stream.split);
        streams.flush_frequency = logging.flush_frequency.0;
        let buffer = if stream.split { stream.info_buffer_size.bytes } else { 0 };
        streams.out.buffer = usize::try_from(buffer).unwrap_or(usize::MAX);
    }

    pub(super) fn write(&self, line: &Line<'_>) {
        let mut streams = self.lock();
        streams.write(line);
        let holds = !streams.is_empty();
        drop(streams);
        if holds {
            self.held.notify_one();
        }
    }

    /// The last lines, one after the other.
    pub(super) fn recent(&self) -> String {
        self.lock().recent.text()
    }

    /// Write what is held, until there is nothing more or the time is up.
    pub(super) fn flush(&self, deadline: Instant) {
        loop {
            let mut streams = self.lock();
            streams.flush();
            if streams.is_empty() || Instant::now() >= deadline {
                return;
            }
            drop(streams);
            std::thread::sleep(PATIENCE / 10);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wait until something was held for long enough, and write it.
    fn tend(&self) {
        let mut streams = self.lock();
        while streams.is_empty() {
            streams = self.held.wait(streams).unwrap_or_else(PoisonError::into_inner);
        }
        let wait = if streams.is_stuck() { PATIENCE } else { streams.flush_frequency };
        drop(streams);
        std::thread::sleep(wait);
        self.lock().flush();
    }
}

/// Write what is held back from a thread of its own, for as long as the process lives.
pub(super) fn attend(sink: Arc<Sink>) {
    // Without the thread, what is held goes with the next line or at the end.
    let _ = std::thread::Builder::new().name("log".into()).spawn(move || {
        loop {
            sink.tend();
        }
    });
}

impl Streams {
    fn write(&mut self, line: &Line<'_>) {
        let text = self.format(line);
        self.recent.push(&text);
        let outlet = self.outlet(line.severity);
        outlet.push(text.as_bytes());
        if let Some(lost) = outlet.confess() {
            let text = self.format(&confession(lost));
            self.outlet(line.severity).push(text.as_bytes());
        }
    }

    fn format(&self, line: &Line<'_>) -> String {
        match self.format {
            LogFormat::Text => text::format(line),
            LogFormat::Json => json::format(line),
        }
    }

    /// As upstream: a warning is no information in text, and no error in JSON.
    fn outlet(&mut self, severity: Severity) -> &mut Outlet {
        let is_info = match self.format {
            LogFormat::Text => severity == Severity::Info,
            LogFormat::Json => severity != Severity::Error,
        };
        if self.split && is_info { &mut self.out } else { &mut self.err }
    }

    fn flush(&mut self) {
        self.out.flush();
        self.err.flush();
    }

    fn is_empty(&self) -> bool {
        self.out.is_empty() && self.err.is_empty()
    }

    fn is_stuck(&self) -> bool {
        self.out.is_stuck() || self.err.is_stuck()
    }
}

fn confession(lost: u64) -> Line<'static> {
    Line {
        severity: Severity::Warning,
        level: 0,
        time: SystemTime::now(),
        file: file!(),
        number: line!(),
        said: Said {
            message: "Log lines were lost because the log was not read for a while".into(),
            fields: vec![("lines", Value::Plain(lost.to_string()))],
        },
    }
}
