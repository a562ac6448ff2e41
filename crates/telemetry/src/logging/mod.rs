//! The log, as Kubernetes components write it: text in klog's shape or JSON, `-v` and `vmodule`, one stream or two.
//!
//! Every crate speaks through `tracing`; this is what listens. Pure parts: `levels` (what is heard), `line`, `text` and
//! `json` (how it reads). Effects: `sink` and `outlet` (where it goes), which never wait for a reader.

#[cfg(any(test, feature = "capture"))]
#[allow(clippy::unwrap_used, reason = "of tests alone")]
pub mod capture;
mod json;
mod levels;
mod line;
mod outlet;
mod pattern;
mod recent;
mod sink;
mod subscriber;
mod text;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use config::Logging;

pub use levels::OF_SERVICES;
pub use recent::start;
use subscriber::Log;

/// How long the end of the process waits for the last lines to be read.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// There is one log a process, as `tracing` has one subscriber.
static LOG: OnceLock<Arc<Log>> = OnceLock::new();

/// Log like this from now on. What did not change since the last call stays as it is, also a level that
/// [`set_verbosity`] has set.
pub fn configure(logging: &Logging) {
    log().configure(logging);
}

/// The level of the whole log, as `PUT /debug/flags/v` gives it, until the configuration names another. The answer is
/// what klog's own says.
pub fn set_verbosity(text: &str) -> Result<String, String> {
    let level = level(text)?;
    log().set_verbosity(level);
    Ok(format!("successfully set klog.logging.verbosity to {level}"))
}

fn level(text: &str) -> Result<u32, String> {
    let level = text.trim().parse().ok().filter(|level| i32::try_from(*level).is_ok());
    level.ok_or_else(|| format!("the level must be a whole number, 0 or more, not {text:?}"))
}

/// Write what is held back; before the process ends.
pub fn flush() {
    if let Some(log) = LOG.get() {
        log.flush(Instant::now() + LAST_WORDS);
    }
}

/// The last lines of the log, in the form in which they were written.
pub fn recent() -> String {
    LOG.get().map(|log| log.sink().recent()).unwrap_or_default()
}

fn log() -> &'static Log {
    LOG.get_or_init(|| {
        let log = Arc::new(Log::to_standard_streams());
        // Tests may have a subscriber of their own, which then stays.
        let _ = tracing::subscriber::set_global_default(subscriber::Listener(log.clone()));
        sink::attend(log.sink());
        log
    })
}

#[cfg(test)]
mod tests;
