//! What is to be said, before it has a shape.

use std::fmt::Debug;
use std::time::SystemTime;

use tracing::field::{Field, Visit};
use tracing_core::{Event, Level};

use super::levels;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    Info,
    Warning,
    Error,
}

#[derive(Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    /// A number or a truth value, which needs no quotes.
    Plain(String),
}

#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) severity: Severity,
    /// The level from which it is heard.
    pub(super) level: u32,
    pub(super) time: SystemTime,
    pub(super) file: &'a str,
    pub(super) number: u32,
    pub(super) said: Said,
}

/// The message, and what it is about.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) message: String,
    pub(super) fields: Vec<(&'static str, Value)>,
}

impl<'a> Line<'a> {
    pub(super) fn of(event: &Event<'a>, time: SystemTime) -> Line<'a> {
        let metadata = event.metadata();
        let severity = match *metadata.level() {
            Level::ERROR => Severity::Error,
            Level::WARN => Severity::Warning,
            _ => Severity::Info,
        };
        let mut said = Said::default();
        event.record(&mut said);
        Line {
            severity,
            level: levels::level(metadata),
            time,
            file: metadata.file().unwrap_or("?"),
            number: metadata.line().unwrap_or(0),
            said,
        }
    }
}

impl Said {
    fn add(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::Text(text) | Value::Plain(text)) => self.message.push_str(&text),
            // Kubernetes' name for it, which alerts and readers look for.
            ("error", value) => self.fields.push(("err", value)),
            (name, value) => self.fields.push((name, value)),
        }
    }
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, Value::Text(value.to_owned()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, Value::Plain(value.to_string()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, Value::Plain(value.to_string()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, Value::Plain(value.to_string()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, Value::Text(format!("{value:?}")));
    }
}
