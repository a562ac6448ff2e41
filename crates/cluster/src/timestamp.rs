//! RFC 3339 timestamps as Kubernetes writes them.

use std::time::SystemTime;

use jiff::Timestamp;

/// `2025-07-15T10:20:30.123456Z`, in UTC and always of this length.
pub fn format_micros(time: SystemTime) -> String {
    // No clock shows a year that this cannot write.
    let time = Timestamp::try_from(time).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Milliseconds since the epoch, or `None` if the text is not an RFC 3339 timestamp.
pub(crate) fn parse_millis(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    #[test]
    fn known_instants() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600_000),
            ("2024-03-01T00:00:00Z", 1_709_251_200_000),
            ("2025-07-15T10:20:30.5Z", 1_752_574_830_500),
            ("2025-07-15T10:20:30.123456789Z", 1_752_574_830_123),
            ("2025-07-15T12:20:30+02:00", 1_752_574_830_000),
            ("1969-12-31T23:59:59Z", -1_000),
        ] {
            assert_eq!(parse_millis(text), Some(millis), "{text}");
        }
    }

    #[test]
    fn written_and_read_back() {
        for text in
            ["1970-01-01T00:00:00.000000Z", "2000-02-29T23:59:59.123000Z", "2026-12-31T10:20:30.999000Z"]
        {
            let millis = parse_millis(text).and_then(|millis| u64::try_from(millis).ok()).unwrap_or_default();
            let time = UNIX_EPOCH + std::time::Duration::from_millis(millis);
            assert_eq!(format_micros(time), text);
        }
    }

    #[test]
    fn not_timestamps() {
        for text in [
            "",
            "yesterday",
            "2024-02-30T00:00:00Z",
            "2024-13-01T00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:00:00",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00+2:00",
            "2024-01-01",
            "+024-01-01T00:00:00Z",
            "ÿÿÿÿÿ-01-01T00:00:00Z",
        ] {
            assert_eq!(parse_millis(text), None, "{text}");
        }
    }
}
