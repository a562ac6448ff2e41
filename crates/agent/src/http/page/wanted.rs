//! What a visitor asks the page for: everything is in the address, so that it can be kept and sent to others.

use super::super::api::{Refused, parameter};

/// Longer ones are cut: nothing here has such names.
const LONGEST: usize = 300;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// A part of a name, or an address.
    pub(super) search: String,
    pub(super) only_problems: bool,
    /// From 1.
    pub(super) page: usize,
    /// A service to show, `namespace/name`.
    pub(super) service: String,
    /// What to explain, and from where.
    pub(super) to: String,
    pub(super) from: String,
}

impl Wanted {
    pub(super) fn read(query: &str) -> Result<Wanted, Refused> {
        let text = |name| {
            let value = parameter(query, name)?.unwrap_or_default();
            Ok::<String, Refused>(value.trim().chars().take(LONGEST).collect())
        };
        Ok(Wanted {
            search: text("q")?,
            only_problems: !text("problems")?.is_empty(),
            page: text("page")?.parse().ok().filter(|page| *page > 0).unwrap_or(1),
            service: text("service")?,
            to: text("to")?,
            from: text("from")?,
        })
    }

    /// The parameters of the list, at this page of it.
    pub(super) fn list<'a>(&'a self, page: &'a str) -> [(&'static str, &'a str); 3] {
        [("q", &self.search), ("problems", if self.only_problems { "true" } else { "" }), ("page", page)]
    }

    /// The page of the list as a parameter; the first needs none.
    pub(super) fn page_text(&self) -> String {
        if self.page > 1 { self.page.to_string() } else { String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_the_first_page_of_everything() {
        let read = |query| Wanted::read(query).unwrap();
        assert_eq!(read(""), Wanted { page: 1, ..Wanted::default() });
        assert_eq!(read("page=-1&x=y&problems="), read(""));
        assert_eq!(read("q=+web+&page=3&problems=true").search, "web");
        assert_eq!(read(&format!("q={}", "a".repeat(5000))).search.len(), LONGEST);
        assert!(Wanted::read("q=%ff").is_err());
    }
}
