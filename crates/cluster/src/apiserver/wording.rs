//! What is said of errors: one line, the cause at the bottom, and nothing of what stands in credentials.

use std::error::Error;
use std::fmt;

/// A complaint of an exec plugin that is longer tells no more.
const LONGEST_COMPLAINT: usize = 200;

pub(super) fn one_line(error: impl fmt::Display) -> String {
    let text = error.to_string();
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

/// The cause at the bottom says the most; the layers above it only repeat that something failed.
pub(super) fn deepest(error: &(dyn Error + 'static)) -> String {
    one_line(bottom(error))
}

pub(super) fn bottom<'a>(mut error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    while let Some(source) = error.source() {
        error = source;
    }
    error
}

/// The last line of what an exec plugin wrote to stderr.
pub(super) fn last_complaint(stderr: &[u8]) -> String {
    let complaint = String::from_utf8_lossy(stderr);
    let last = complaint.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("nothing on stderr");
    last.chars().take(LONGEST_COMPLAINT).collect()
}

/// A URL without user, password, query and fragment: each may hold a secret. A password may have a `/` in it that should
/// have been escaped.
pub fn masked(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or(url);
    let without_user = |text: &str| text.rsplit('@').next().unwrap_or(text).to_owned();
    let Some((scheme, rest)) = url.split_once("://") else { return without_user(url) };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    // Behind the colon of a host is a port.
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    let is_whole =
        authority.contains('@') || authority.ends_with(']') || port.bytes().all(|c| c.is_ascii_digit());
    match is_whole {
        true => format!("{scheme}://{}{path}", without_user(authority)),
        false => format!("{scheme}://{}", without_user(rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_show_no_password() {
        assert_eq!(masked("https://user:SECRET@10.0.0.1:6443/base"), "https://10.0.0.1:6443/base");
        assert_eq!(masked("https://10.0.0.1:6443"), "https://10.0.0.1:6443");
        assert_eq!(masked("user:SECRET@10.0.0.1"), "10.0.0.1");
    }

    #[test]
    fn secrets_in_urls_are_left_out() {
        for (url, shown) in [
            ("https://u:pw@host:6443/x@y?token=a#b", "https://host:6443/x@y"),
            ("https://host:6443/x@y", "https://host:6443/x@y"),
            ("https://[fd00::1]:6443/", "https://[fd00::1]:6443/"),
            ("https://[fd00::1]/a@b", "https://[fd00::1]/a@b"),
            ("https://u:SEC/RET@192.0.2.1:6443", "https://192.0.2.1:6443"),
            ("u:pw@host", "host"),
        ] {
            assert_eq!(masked(url), shown, "{url}");
        }
    }
}
