//! The documents of a YAML file.
//!
//! Splitting before parsing is sound, since `---` at the start of a line ends a document wherever it stands,
//! and keeps a syntax error in one document away from the others.

/// One document of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Document<'a> {
    /// From 1, empty documents counted.
    pub(super) number: usize,
    /// How many lines of the file come before it.
    pub(super) lines_before: u64,
    pub(super) text: &'a str,
}

/// The documents that hold anything besides comments.
pub(super) fn documents(text: &str) -> impl Iterator<Item = Document<'_>> {
    let mut rest = Some(text.strip_prefix('\u{feff}').unwrap_or(text));
    let mut lines_before = 0;
    let chunks = std::iter::from_fn(move || {
        let current = rest?;
        let end = next_separator(current);
        let chunk = end.and_then(|end| current.get(..end)).unwrap_or(current);
        rest = end.and_then(|end| current.get(end..));
        let started_at = lines_before;
        lines_before += chunk.bytes().filter(|byte| *byte == b'\n').count() as u64;
        Some((started_at, chunk))
    });
    // What stands before the first `---` is no document of its own unless it holds something.
    let chunks = chunks.enumerate().skip_while(|(i, (_, text))| *i == 0 && is_blank(text));
    chunks
        .enumerate()
        .map(|(i, (_, (lines_before, text)))| Document { number: i + 1, lines_before, text })
        .filter(|document| !is_blank(document.text))
}

/// Where the next line that is a `---` begins, not counting the first line.
fn next_separator(text: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let found = from + text.get(from..)?.find("\n---")? + 1;
        let after = text.as_bytes().get(found + 3);
        if after.is_none_or(u8::is_ascii_whitespace) {
            return Some(found);
        }
        from = found;
    }
}

/// Only comments, directives and markers.
fn is_blank(text: &str) -> bool {
    text.lines().all(|line| {
        let line = line.strip_prefix("---").unwrap_or(line).trim();
        line.is_empty() || line.starts_with(['#', '%']) || line == "..."
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<(usize, u64, &str)> {
        documents(text).map(|d| (d.number, d.lines_before, d.text)).collect()
    }

    #[test]
    fn one_document_with_or_without_marker() {
        assert_eq!(split("a: 1\n"), [(1, 0, "a: 1\n")]);
        assert_eq!(split("---\na: 1\n"), [(1, 0, "---\na: 1\n")]);
        assert_eq!(split("# head\n---\na: 1\n"), [(1, 1, "---\na: 1\n")]);
    }

    #[test]
    fn several_documents_know_their_lines() {
        assert_eq!(
            split("a: 1\n---\nb: 2\n--- # c\nc: 3"),
            [(1, 0, "a: 1\n"), (2, 1, "---\nb: 2\n"), (3, 3, "--- # c\nc: 3")]
        );
    }

    #[test]
    fn empty_documents_are_counted_but_not_returned() {
        assert_eq!(split("a: 1\n---\n# nothing\n---\nb: 2\n"), [(1, 0, "a: 1\n"), (3, 3, "---\nb: 2\n")]);
        assert_eq!(split(""), []);
        assert_eq!(split("---\n---\n"), []);
    }

    #[test]
    fn dashes_elsewhere_are_content() {
        assert_eq!(split("a: |\n  ---\n  x\n----\n"), [(1, 0, "a: |\n  ---\n  x\n----\n")]);
    }

    #[test]
    fn windows_line_ends() {
        assert_eq!(split("a: 1\r\n---\r\nb: 2\r\n").len(), 2);
    }
}
