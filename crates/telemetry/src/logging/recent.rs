//! The last lines of the log, for a bug report: the log itself may be gone by then.

use std::collections::VecDeque;

const MOST_LINES: usize = 1000;
const MOST_BYTES: usize = 256 * 1024;
/// Of one line.
const LONGEST: usize = 8 * 1024;

/// A ring that takes memory as it fills.
#[derive(Default)]
pub(super) struct Recent {
    lines: VecDeque<Box<str>>,
    bytes: usize,
}

impl Recent {
    /// With the end of the line.
    pub(super) fn push(&mut self, line: &str) {
        let line = start(line, LONGEST);
        self.bytes += line.len();
        self.lines.push_back(line.into());
        while self.lines.len() > MOST_LINES || self.bytes > MOST_BYTES {
            self.bytes -= self.lines.pop_front().map_or(0, |oldest| oldest.len());
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::with_capacity(self.bytes);
        for line in &self.lines {
            text.push_str(line);
            if !line.ends_with('\n') {
                text.push('\n');
            }
        }
        text
    }
}

/// What of a text fits into so many bytes.
pub fn start(text: &str, most: usize) -> &str {
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    if text.len() <= most { text } else { text.get(..end).unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_lines_go_first() {
        let mut recent = Recent::default();
        (0..MOST_LINES + 2).for_each(|number| recent.push(&format!("{number}\n")));
        let text = recent.text();
        assert_eq!((text.lines().next(), text.lines().count()), (Some("2"), MOST_LINES));
        recent.push(&"é".repeat(LONGEST));
        assert_eq!(recent.text().lines().last().map(str::len), Some(LONGEST));
        (0..MOST_LINES).for_each(|_| recent.push(&format!("{}\n", "x".repeat(1000))));
        let text = recent.text();
        assert!((MOST_BYTES - 1001..=MOST_BYTES).contains(&text.len()), "{}", text.len());
    }
}
