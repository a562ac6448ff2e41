//! The page the demo writes: headings, lines, one line that changes while numbers come in.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use super::leftovers::Leftovers;

pub(super) struct Screen {
    /// A terminal that can rewrite a line, with a person reading along.
    live: bool,
    colour: bool,
    leftovers: Arc<Leftovers>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Bold,
    Dim,
    Good,
    Bad,
    Number,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Tone::Bold => "1",
            Tone::Dim => "2",
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Number => "36",
        }
    }
}

impl Screen {
    pub(super) fn new(leftovers: Arc<Leftovers>) -> Screen {
        let live = std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb");
        let colour = live && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Screen { live, colour, leftovers }
    }

    pub(super) fn paint(&self, tone: Tone, text: &str) -> String {
        match self.colour {
            true => format!("\x1b[{}m{text}\x1b[0m", tone.code()),
            false => text.to_owned(),
        }
    }

    pub(super) fn heading(&self, text: &str) {
        self.pause(Duration::from_millis(600));
        self.write(&format!("\n{}\n", self.paint(Tone::Bold, text)));
    }

    pub(super) fn line(&self, text: &str) {
        self.write(&format!("{text}\n"));
    }

    pub(super) fn note(&self, text: &str) {
        self.line(&self.paint(Tone::Dim, text));
    }

    /// The line as it is for now; only a terminal shows it.
    pub(super) fn draft(&self, text: &str) {
        if self.live {
            self.write(&format!("\r\x1b[2K{text}"));
        }
    }

    /// The line as it stays.
    pub(super) fn settle(&self, text: &str) {
        let start = if self.live { "\r\x1b[2K" } else { "" };
        self.write(&format!("{start}{text}\n"));
    }

    /// Time to read, if a person reads.
    pub(super) fn pause(&self, time: Duration) {
        if self.live {
            std::thread::sleep(time);
        }
    }

    /// The reader is gone when this fails (`demo | head`): the show is over.
    fn write(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            self.leftovers.leave(1);
        }
    }
}

/// `7.3 ms`, `84 µs`, `1.2 s`.
pub(super) fn span(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

/// `1 byte`, `2 bytes`; the number with the word.
pub(super) fn count(number: usize, word: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{number} {word}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_well() {
        for (micros, text) in [(84, "84 µs"), (7_340, "7.3 ms"), (1_240_000, "1.2 s")] {
            assert_eq!(span(Duration::from_micros(micros)), text);
        }
        assert_eq!((count(1, "byte"), count(0, "byte")), ("1 byte".into(), "0 bytes".into()));
    }
}
