//! The text that Prometheus reads, format 0.0.4.

use std::fmt::Write;

use super::value::Snapshot;

/// A page under construction: families, each followed by its samples.
#[derive(Debug, Default)]
pub(crate) struct Page(String);

impl Page {
    pub(crate) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// `labels` as [`label_text`] makes them.
    pub(crate) fn sample(&mut self, name: &str, labels: &str, value: f64) {
        self.labelled(name, labels, "");
        self.number(value);
    }

    /// The same for a whole number, which has more digits than an `f64` keeps.
    pub(crate) fn count(&mut self, name: &str, labels: &str, value: u64) {
        self.labelled(name, labels, "");
        self.line(format_args!(" {value}\n"));
    }

    /// Families and samples that were written before.
    pub(crate) fn append(&mut self, text: &str) {
        self.0.push_str(text);
    }

    pub(crate) fn histogram(&mut self, name: &str, labels: &str, snapshot: &Snapshot) {
        let bounds = snapshot.buckets.iter().map(|(bound, count)| (bound_text(*bound), *count));
        for (bound, count) in bounds.chain([("+Inf".to_owned(), snapshot.count)]) {
            self.labelled(&format!("{name}_bucket"), labels, &format!("le=\"{bound}\""));
            self.line(format_args!(" {count}\n"));
        }
        self.sample(&format!("{name}_sum"), labels, snapshot.sum);
        self.count(&format!("{name}_count"), labels, snapshot.count);
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }

    fn labelled(&mut self, name: &str, labels: &str, more: &str) {
        self.0.push_str(name);
        let all: Vec<&str> = [labels, more].into_iter().filter(|part| !part.is_empty()).collect();
        if !all.is_empty() {
            self.line(format_args!("{{{}}}", all.join(",")));
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
pub(crate) fn label_text<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs: Vec<String> =
        pairs.into_iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    pairs.join(",")
}

/// A bound as Go's client libraries print it, so that queries which name one in `le` find ours: `16.384`, `1.048576e+06`.
fn bound_text(bound: f64) -> String {
    let scientific = format!("{bound:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent @ (..=-5 | 6..)) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => bound.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_written_as_go_writes_them() {
        let texts =
            [0.001, 0.25, 16.384, 60.0, 262_144.0, 1_048_576.0, 16_777_216.0, 0.00001].map(bound_text);
        let known = ["0.001", "0.25", "16.384", "60", "262144", "1.048576e+06", "1.6777216e+07", "1e-05"];
        assert_eq!(texts, known);
    }

    #[test]
    fn labels_and_help_are_escaped() {
        assert_eq!(label_text([("a", "x\"y\\z\n"), ("b", "")]), "a=\"x\\\"y\\\\z\\n\",b=\"\"");
        let mut page = Page::default();
        page.family("name", "gauge", "one\ntwo");
        page.sample("name", "", f64::INFINITY);
        assert_eq!(page.into_text(), "# HELP name one\\ntwo\n# TYPE name gauge\nname +Inf\n");
    }
}
