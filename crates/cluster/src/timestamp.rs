//! RFC 3339 timestamps as Kubernetes writes them. No calendar beyond that.

use std::time::{SystemTime, UNIX_EPOCH};

/// `2025-07-15T10:20:30.123456Z`, in UTC and always of this length.
pub fn format_micros(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil_date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:06}Z", since.subsec_micros())
}

/// The date of a day since 1970: years are counted from March so that leap days come last.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let (month, year_after) = if from_march < 10 { (from_march + 3, 0) } else { (from_march - 9, 1) };
    (era * 400 + year_of_era + year_after, month, day_of_year - (153 * from_march + 2) / 5 + 1)
}

/// Milliseconds since the epoch, or `None` if the text is not an RFC 3339 timestamp.
pub(crate) fn parse_millis(text: &str) -> Option<i64> {
    let (date, rest) = text.split_at_checked(10)?;
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (time, rest) = rest.split_at_checked(8)?;
    let [year, month, day] = fields(date, b'-', [4, 2, 2])?;
    let [hour, minute, second] = fields(time, b':', [2, 2, 2])?;
    let valid = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour <= 23
        && minute <= 59
        && second <= 60;
    if !valid {
        return None;
    }
    let (millis, zone) = fraction(rest)?;
    let seconds = days_since_epoch(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    Some((seconds - offset_seconds(zone)?) * 1_000 + millis)
}

/// Three numbers of fixed widths, one separator between them.
fn fields(text: &str, separator: u8, widths: [usize; 3]) -> Option<[i64; 3]> {
    let mut parts = text.split(char::from(separator));
    let mut numbers = [0; 3];
    for (number, width) in numbers.iter_mut().zip(widths) {
        *number = digits(parts.next().filter(|part| part.len() == width)?)?;
    }
    parts.next().is_none().then_some(numbers)
}

fn digits(text: &str) -> Option<i64> {
    let all_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| text.parse().ok())?
}

/// Split `.123456Z` into milliseconds and the zone; finer digits are dropped.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let Some(rest) = text.strip_prefix('.') else { return Some((0, text)) };
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    let (number, zone) = rest.split_at_checked(end)?;
    let padded: String = number.chars().chain("00".chars()).take(3).collect();
    digits(number).and(digits(&padded)).map(|millis| (millis, zone))
}

fn offset_seconds(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let two = |text: &str| (text.len() == 2).then(|| digits(text))?;
    Some(sign * (two(hours).filter(|h| *h <= 23)? * 3_600 + two(minutes).filter(|m| *m <= 59)? * 60))
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let before = year - 1;
    let leap_days = before / 4 - before / 100 + before / 400;
    let day_of_year: i64 = (1..month).map(|m| days_in_month(year, m)).sum::<i64>() + day - 1;
    const EPOCH: i64 = 719_162; // days from 0001-01-01 to 1970-01-01
    before * 365 + leap_days + day_of_year - EPOCH
}

#[cfg(test)]
mod tests {
    use super::*;

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
