//! Inputs kept in the repository, one to a line, with bytes escaped as in a Rust string: a file can be read, and a
//! changed one compared. Lines that begin with `#` are comments.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Target;

/// Inputs that reach far, to begin from.
pub fn corpus(target: &Target) -> Vec<Vec<u8>> {
    read(&path("corpus", target))
}

/// Inputs that once broke something.
pub fn regressions(target: &Target) -> Vec<Vec<u8>> {
    read(&path("regressions", target))
}

pub fn path(folder: &str, target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(format!("{}.txt", target.name))
}

fn read(path: &Path) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter(|line| !line.starts_with('#')).map(|line| unescape(line).expect(line)).collect()
}

pub fn escape(input: &[u8]) -> String {
    let escaped = input.escape_ascii().to_string();
    match escaped.strip_prefix('#') {
        Some(rest) => format!("\\x23{rest}"),
        None => escaped,
    }
}

/// `None` if the line was not written by [`escape`].
pub fn unescape(line: &str) -> Option<Vec<u8>> {
    let mut input = Vec::with_capacity(line.len());
    let mut rest = line.bytes();
    while let Some(byte) = rest.next() {
        input.push(match byte {
            b'\\' => match rest.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'x' => digit(rest.next()?)? << 4 | digit(rest.next()?)?,
                quote @ (b'\\' | b'\'' | b'"') => quote,
                _ => return None,
            },
            plain => plain,
        });
    }
    Some(input)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_escaped_is_read_again() {
        let all: Vec<u8> = (0..=255).collect();
        for input in [&all[..], b"", b"#\n\"quoted\"", b"plain"] {
            let line = escape(input);
            assert!(!line.contains('\n') && !line.starts_with('#'), "{line}");
            assert_eq!(unescape(&line).as_deref(), Some(input));
        }
        assert_eq!(unescape("\\q"), None);
        assert_eq!(unescape("\\x4"), None);
    }
}
