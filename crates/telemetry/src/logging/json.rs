//! Lines as JSON objects, with the keys of Kubernetes components: `ts` in milliseconds, `caller`, `msg`, `v`, `err`.

use std::time::{SystemTime, UNIX_EPOCH};

use super::line::{Line, Severity, Value};

pub(super) fn format(line: &Line<'_>) -> String {
    let mut text = format!("{{\"ts\":{},\"caller\":", milliseconds(line.time));
    quote(&format!("{}:{}", caller(line.file), line.number), &mut text);
    text.push_str(",\"msg\":");
    quote(&line.said.message, &mut text);
    match line.severity {
        // As upstream: an error has no level.
        Severity::Error => {}
        Severity::Warning => text.push_str(&format!(",\"v\":{},\"severity\":\"warning\"", line.level)),
        Severity::Info => text.push_str(&format!(",\"v\":{}", line.level)),
    }
    for (name, value) in &line.said.fields {
        text.push(',');
        quote(name, &mut text);
        text.push(':');
        match value {
            Value::Text(value) => quote(value, &mut text),
            Value::Plain(value) => text.push_str(value),
        }
    }
    text.push_str("}\n");
    text
}

fn milliseconds(time: SystemTime) -> f64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as f64 / 1000.0
}

/// The file and its folder; `src` says nothing, so that the crate stands in its place.
fn caller(file: &str) -> String {
    let mut parts = file.rsplit('/').filter(|part| *part != "src");
    let name = parts.next().unwrap_or_default();
    parts.next().map_or_else(|| name.to_owned(), |folder| format!("{folder}/{name}"))
}

fn quote(text: &str, into: &mut String) {
    into.push_str(&serde_json::Value::from(text).to_string());
}
