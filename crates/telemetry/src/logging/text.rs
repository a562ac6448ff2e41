//! Lines in klog's shape: `I1115 23:59:59.123456    1234 sync.rs:42] "Synced" family="IPv4"`.

use std::time::SystemTime;

use cluster::timestamp::format_micros;

use super::line::{Line, Severity, Value};

pub(super) fn format(line: &Line<'_>) -> String {
    let letter = match line.severity {
        Severity::Info => 'I',
        Severity::Warning => 'W',
        Severity::Error => 'E',
    };
    let file = line.file.rsplit('/').next().unwrap_or_default();
    let (time, process, number) = (clock(line.time), std::process::id(), line.number);
    let mut text = format!("{letter}{time} {process:>7} {file}:{number}] {:?}", line.said.message);
    for (name, value) in &line.said.fields {
        match value {
            Value::Text(value) => text.push_str(&format!(" {name}={value:?}")),
            Value::Plain(value) => text.push_str(&format!(" {name}={value}")),
        }
    }
    text.push('\n');
    text
}

/// `MMDD hh:mm:ss.uuuuuu`, in UTC.
fn clock(now: SystemTime) -> String {
    let full = format_micros(now);
    let part = |range| full.get(range).unwrap_or_default();
    format!("{}{} {}", part(5..7), part(8..10), part(11..26))
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
