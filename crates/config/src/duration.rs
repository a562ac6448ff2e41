//! Durations as Go writes them: `1h2m3s`, `15m0s`, `250ms`.

use std::time::Duration;

const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Go counts nanoseconds in 63 bits.
const LONGEST: u128 = i64::MAX as u128;

/// A duration as Go reads it.
pub fn parse(text: &str) -> Result<Duration, String> {
    if text.starts_with('-') && nanoseconds(&text[1..]).is_some() {
        return Err(format!("{text:?} is negative; a duration is 0 or longer"));
    }
    let nanoseconds = nanoseconds(text.strip_prefix('+').unwrap_or(text));
    let fits = nanoseconds.filter(|nanoseconds| *nanoseconds <= LONGEST).map(|n| n as u64);
    fits.map(Duration::from_nanos)
        .ok_or_else(|| format!("{text:?} is not a duration; write it like 30s, 1m30s or 250ms"))
}

fn nanoseconds(text: &str) -> Option<u128> {
    if text == "0" {
        return Some(0);
    }
    let mut rest = text;
    let mut sum: u128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(end);
        let unit_end = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (unit, next) = behind.split_at(unit_end);
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
        sum = sum.checked_add(scaled(number, *scale)?)?;
        rest = next;
    }
    (!text.is_empty()).then_some(sum)
}

/// A number with an optional fraction, times its unit; what is less than a nanosecond is dropped.
fn scaled(number: &str, scale: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || fraction.contains('.') {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u128>().ok() };
    // Nanoseconds in an hour have 13 digits: further ones cannot matter.
    let fraction = fraction.get(..15).unwrap_or(fraction);
    let part = digits(fraction)?.checked_mul(scale)? / 10u128.pow(fraction.len() as u32);
    digits(whole)?.checked_mul(scale)?.checked_add(part)
}

/// As Go prints it: `15m0s`, `1.5s`, `250ms`.
pub(crate) fn format(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos();
    let (unit, scale) = match nanoseconds {
        0 => return "0s".to_owned(),
        1..1_000 => ("ns", 1),
        1_000..1_000_000 => ("µs", 1_000),
        1_000_000..1_000_000_000 => ("ms", 1_000_000),
        _ => ("s", 1_000_000_000),
    };
    let minutes = nanoseconds / 60_000_000_000;
    let seconds = decimal(nanoseconds % 60_000_000_000, scale);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{seconds}{unit}"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

fn decimal(value: u128, scale: u128) -> String {
    let width = scale.ilog10() as usize;
    let fraction = format!("{:0width$}", value % scale);
    match fraction.trim_end_matches('0') {
        "" => (value / scale).to_string(),
        fraction => format!("{}.{fraction}", value / scale),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations() {
        for (text, nanos) in [
            ("30s", 30_000_000_000),
            ("1m30s", 90_000_000_000),
            ("250ms", 250_000_000),
            ("1h2m3s", 3_723_000_000_000),
            ("0", 0),
            ("+1s", 1_000_000_000),
            ("1.5s", 1_500_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("1.1s", 1_100_000_000),
            ("3us2ns", 3_002),
            ("0.00000000000000000001h", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        for text in ["", "5", "s", ".s", "1x", "1s2", "1..5s", "one second", "99999999999999999999h", "µ"] {
            assert!(parse(text).unwrap_err().contains("is not a duration"), "{text}");
        }
        assert!(parse("-1s").unwrap_err().contains("is negative"));
        assert!(parse("-µ").unwrap_err().contains("is not a duration"));
    }

    #[test]
    fn written_as_go_does() {
        for text in
            ["0s", "1s", "15m0s", "24h0m0s", "1h0m0s", "1h2m3.5s", "250ms", "1.5s", "100µs", "1.001ms", "7ns"]
        {
            assert_eq!(format(parse(text).unwrap()), text);
        }
    }
}
