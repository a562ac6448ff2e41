//! Text that becomes HTML. What is not a literal of this program is escaped; the types leave no other way.

use std::fmt::{self, Display, Write};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What need not be escaped in a query, so that people can read addresses of the page.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'/')
    .remove(b':')
    .remove(b'[')
    .remove(b']');

/// HTML that grows.
#[derive(Debug, Default)]
pub(super) struct Html(String);

impl Html {
    pub(super) fn into_text(self) -> String {
        self.0
    }

    /// Markup, as it stands in the source code.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Html {
        self.0.push_str(markup);
        self
    }

    /// Anything else: no character of it is markup, in text and in quoted attributes.
    pub(super) fn text(&mut self, text: impl Display) -> &mut Html {
        // Writing to a String cannot fail.
        let _ = write!(Escaped(&mut self.0), "{text}");
        self
    }

    /// What `parts` wrote.
    pub(super) fn with(&mut self, parts: impl FnOnce(&mut Html)) -> &mut Html {
        parts(self);
        self
    }

    /// A link to this page with these parameters, for an attribute. Empty ones are left out.
    pub(super) fn query(&mut self, parameters: &[(&str, &str)]) -> &mut Html {
        let given = parameters.iter().filter(|(_, value)| !value.is_empty());
        let pairs = given.map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, ESCAPED)));
        let pairs: Vec<String> = pairs.collect();
        // Relative, so that the page also works where a proxy serves it under a path of its own.
        self.text(format_args!("?{}", pairs.join("&")))
    }
}

struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(['&', '<', '>', '"', '\'']) {
            let (plain, special) = match part.as_bytes().last() {
                Some(b'&') => (&part[..part.len() - 1], "&amp;"),
                Some(b'<') => (&part[..part.len() - 1], "&lt;"),
                Some(b'>') => (&part[..part.len() - 1], "&gt;"),
                Some(b'"') => (&part[..part.len() - 1], "&quot;"),
                Some(b'\'') => (&part[..part.len() - 1], "&#39;"),
                _ => (part, ""),
            };
            self.0.push_str(plain);
            self.0.push_str(special);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_literals_are_markup() {
        let mut html = Html::default();
        html.raw("<b>").text("a<script>alert('&\"x\"')</script>ü").raw("</b>");
        let wanted = "<b>a&lt;script&gt;alert(&#39;&amp;&quot;x&quot;&#39;)&lt;/script&gt;ü</b>";
        assert_eq!(html.into_text(), wanted);
    }

    #[test]
    fn links_carry_any_value() {
        let mut html = Html::default();
        html.query(&[("q", "a&b=\"<c>"), ("page", ""), ("service", "x/y")]);
        assert_eq!(html.into_text(), "?q=a%26b%3D%22%3Cc%3E&amp;service=x/y");
    }
}
