//! Log lines in klog's shape: `I1115 23:59:59.123456    1234 sync.rs:42] "Synced" family="IPv4"`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::SystemTime;

use cluster::timestamp::format_micros;
use tracing::field::{Field, Visit};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Level, LevelFilter, Metadata, Subscriber};

/// Send the log to stderr from now on. Levels: 0 what happens to the agent and its rules, 4 every sync, 6 all.
pub fn init(verbosity: u8) {
    let level = match verbosity {
        0..=3 => LevelFilter::INFO,
        4 | 5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    // A second call, in tests, keeps the first subscriber.
    let _ = tracing::subscriber::set_global_default(KlogLines { level });
}

struct KlogLines {
    level: LevelFilter,
}

impl Subscriber for KlogLines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level && (self.level == LevelFilter::TRACE || is_ours(metadata.target()))
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn event(&self, event: &Event<'_>) {
        let line = format_line(event, SystemTime::now());
        // Nobody is left to tell when stderr is closed.
        let _ = std::io::stderr().write_all(line.as_bytes());
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

/// Libraries know neither the object nor what to do; they are heard only when everything is.
fn is_ours(target: &str) -> bool {
    const CRATES: [&str; 5] = ["agent", "cluster", "dataplane", "kernel", "kube_proxy"];
    CRATES.contains(&target.split("::").next().unwrap_or_default())
}

fn format_line(event: &Event<'_>, now: SystemTime) -> String {
    let metadata = event.metadata();
    let letter = match *metadata.level() {
        Level::ERROR => 'E',
        Level::WARN => 'W',
        _ => 'I',
    };
    let file = metadata.file().and_then(|file| file.rsplit('/').next()).unwrap_or("?");
    let mut fields = Fields::default();
    event.record(&mut fields);
    let (time, process, line) = (clock(now), std::process::id(), metadata.line().unwrap_or(0));
    format!("{letter}{time} {process:>7} {file}:{line}] {:?}{}\n", fields.message, fields.rest)
}

/// `MMDD hh:mm:ss.uuuuuu`, in UTC.
fn clock(now: SystemTime) -> String {
    let full = format_micros(now);
    let part = |range| full.get(range).unwrap_or_default();
    format!("{}{} {}", part(5..7), part(8..10), part(11..26))
}

#[derive(Default)]
struct Fields {
    message: String,
    rest: String,
}

impl Fields {
    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.rest.write_fmt(text);
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message.push_str(value),
            name => self.push(format_args!(" {name}={value:?}")),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message.push_str(&text),
            name if text.starts_with('"') || text.parse::<f64>().is_ok() || text.parse::<bool>().is_ok() => {
                self.push(format_args!(" {name}={text}"));
            }
            name => self.push(format_args!(" {name}={text:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn civil_dates() {
        for (seconds, text) in [
            (0, "0101 00:00:00.000000"),
            (951_782_400, "0229 00:00:00.000000"),
            (1_709_164_800, "0229 00:00:00.000000"),
            (1_794_787_199, "1115 23:59:59.000000"),
        ] {
            assert_eq!(clock(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
