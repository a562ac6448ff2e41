//! The log of a test.

use std::sync::{Arc, Mutex, OnceLock};

use config::{Configuration, Logging, settings};
use tracing_core::Dispatch;
use tracing_core::subscriber::NoSubscriber;

use super::outlet::Drain;
use super::sink::Sink;
use super::subscriber::{Listener, Log};

/// A reader that takes only so many bytes.
#[derive(Clone, Default)]
pub(super) struct Reader(Arc<Mutex<(Vec<u8>, usize)>>);

impl Reader {
    pub(super) fn open() -> Reader {
        let reader = Reader::default();
        reader.take(usize::MAX);
        reader
    }

    pub(super) fn take(&self, most: usize) {
        self.0.lock().unwrap().1 = most;
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().0.clone()).unwrap()
    }
}

impl Drain for Reader {
    fn write(&mut self, bytes: &[u8]) -> usize {
        let (read, most) = &mut *self.0.lock().unwrap();
        let count = bytes.len().min(*most);
        read.extend_from_slice(&bytes[..count]);
        *most -= count;
        count
    }
}

pub(super) fn logging(flags: &[&str]) -> Logging {
    let mut configuration = Configuration::default();
    for (name, value) in flags.iter().filter_map(|flag| flag.split_once('=')) {
        let is_named = |setting: &&settings::Setting| setting.flag.is_some_and(|usage| usage.name == name);
        settings::all().find(is_named).unwrap().value(&mut configuration).read_flag(value).unwrap();
    }
    configuration.logging
}

/// Hear what this thread says.
pub(super) fn listen(log: &Arc<Log>, speak: impl FnOnce()) {
    // With one subscriber alone, tracing asks for a line's interest only that of the thread that happens to ask,
    // and a test that has none would silence this one.
    static COMPANY: OnceLock<Dispatch> = OnceLock::new();
    COMPANY.get_or_init(|| Dispatch::new(NoSubscriber::default()));
    tracing::subscriber::with_default(Listener(log.clone()), speak);
}

/// What stdout and stderr hold after `speak`.
pub fn heard(flags: &[&str], speak: impl FnOnce()) -> (String, String) {
    heard_by(flags, |_| speak())
}

/// The same for those who change the log meanwhile.
pub(super) fn heard_by(flags: &[&str], speak: impl FnOnce(&Log)) -> (String, String) {
    let (out, err) = (Reader::open(), Reader::open());
    let log = Arc::new(Log::new(Sink::new(out.clone(), err.clone())));
    log.configure(&logging(flags));
    listen(&log, || speak(&log));
    (out.text(), err.text())
}

/// The messages, in order.
pub fn messages(log: &str) -> Vec<&str> {
    log.lines().filter_map(|line| line.split("] \"").nth(1)?.split('"').next()).collect()
}
