//! The text that Prometheus reads, format 0.0.4.

use std::fmt::Write;

use super::Description;

/// A page under construction: families, each followed by its samples.
#[derive(Debug, Default)]
pub struct Page(String);

impl Page {
    /// The head of a family; its samples follow.
    pub fn family(&mut self, about: &Description) {
        let (name, kind) = (about.name, about.kind.word());
        let help = about.help.replace('\\', "\\\\").replace('\n', "\\n");
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// `labels` as [`label_text`] makes them.
    pub fn sample(&mut self, name: &str, labels: &str, value: f64) {
        self.labelled(name, labels);
        self.number(value);
    }

    /// The same for a whole number, which has more digits than an `f64` keeps.
    pub fn count(&mut self, name: &str, labels: &str, value: u64) {
        self.labelled(name, labels);
        self.line(format_args!(" {value}\n"));
    }

    /// Families and samples that were written before.
    pub fn append(&mut self, text: &str) {
        self.0.push_str(text);
    }

    pub fn into_text(self) -> String {
        self.0
    }

    fn labelled(&mut self, name: &str, labels: &str) {
        self.0.push_str(name);
        if !labels.is_empty() {
            self.line(format_args!("{{{labels}}}"));
        }
    }

    fn number(&mut self, value: f64) {
        match value {
            f64::INFINITY => self.0.push_str(" +Inf\n"),
            f64::NEG_INFINITY => self.0.push_str(" -Inf\n"),
            _ => self.line(format_args!(" {value}\n")),
        }
    }

    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.0.write_fmt(text);
    }
}

/// `a="x",b="y"`, with what must be escaped.
pub fn label_text<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs: Vec<String> =
        pairs.into_iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    pairs.join(",")
}
