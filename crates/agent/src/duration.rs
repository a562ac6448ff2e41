//! Durations as Go writes them: `1h2m3s`, `15m0s`, `250ms`.

use std::time::Duration;

const UNITS: [(&str, f64); 7] =
    [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration; write it like 30s, 1m30s or 250ms");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, behind) = rest.split_at(end);
        let unit_end = behind.find(|c: char| c.is_ascii_digit()).unwrap_or(behind.len());
        let (unit, next) = behind.split_at(unit_end);
        let scale = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, scale)| scale).ok_or_else(wrong)?;
        seconds += number.parse::<f64>().map_err(|_| wrong())? * scale;
        rest = next;
    }
    if text.is_empty() {
        return Err(wrong());
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations() {
        for (text, millis) in [
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("250ms", 250),
            ("1h2m3s", 3_723_000),
            ("0", 0),
            ("1.5s", 1500),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "s", "-1s", "1x", "1s2", "one second", "99999999999999999999h"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
