//! SPDX licence expressions: may we ship what carries this one?

/// Licences that ask for no more than keeping a notice.
const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "NCSA",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// Exceptions that only ever add permissions.
const EXCEPTIONS: &[&str] = &["LLVM-exception"];

/// A licence expression, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Licence {
    One { name: String, exception: Option<String> },
    Any(Vec<Licence>),
    All(Vec<Licence>),
}

impl Licence {
    /// `OR` leaves us the choice, `AND` binds us to all.
    pub fn is_permissive(&self) -> bool {
        match self {
            Licence::One { name, exception } => {
                let known = |exception: &String| EXCEPTIONS.contains(&exception.as_str());
                PERMISSIVE.contains(&name.as_str()) && exception.as_ref().is_none_or(known)
            }
            Licence::Any(choices) => choices.iter().any(Licence::is_permissive),
            Licence::All(parts) => parts.iter().all(Licence::is_permissive),
        }
    }
}

/// Read an expression. `/` stands for `OR`, as crates wrote it before SPDX expressions.
pub fn parse(text: &str) -> Result<Licence, String> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = Words { words: spaced.split_whitespace().collect(), at: 0 };
    let licence = words.any()?;
    match words.peek() {
        None => Ok(licence),
        Some(word) => Err(format!("{word:?} is left over")),
    }
}

struct Words<'a> {
    words: Vec<&'a str>,
    at: usize,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.peek();
        self.at += 1;
        word
    }

    fn take(&mut self, wanted: &str) -> bool {
        let found = self.peek().is_some_and(|word| word.eq_ignore_ascii_case(wanted));
        self.at += usize::from(found);
        found
    }

    fn any(&mut self) -> Result<Licence, String> {
        let mut choices = vec![self.all()?];
        while self.take("OR") {
            choices.push(self.all()?);
        }
        Ok(if choices.len() == 1 { choices.remove(0) } else { Licence::Any(choices) })
    }

    /// `AND` binds tighter than `OR`.
    fn all(&mut self) -> Result<Licence, String> {
        let mut parts = vec![self.one()?];
        while self.take("AND") {
            parts.push(self.one()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Licence::All(parts) })
    }

    fn one(&mut self) -> Result<Licence, String> {
        if self.take("(") {
            let inner = self.any()?;
            return if self.take(")") { Ok(inner) } else { Err("a bracket is not closed".into()) };
        }
        let name = self.name()?;
        let exception = if self.take("WITH") { Some(self.name()?) } else { None };
        Ok(Licence::One { name, exception })
    }

    fn name(&mut self) -> Result<String, String> {
        let is_operator = |word: &str| matches!(word, "(" | ")" | "AND" | "OR" | "WITH");
        match self.next() {
            Some(word) if !is_operator(word) => Ok(word.to_owned()),
            Some(word) => Err(format!("{word:?} stands where a licence should")),
            None => Err("a licence is missing at the end".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_and_obligations() {
        let cases = [
            ("MIT", true),
            ("GPL-2.0-only", false),
            ("MIT OR GPL-2.0-only", true),
            ("MIT AND GPL-2.0-only", false),
            ("MIT/Apache-2.0", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("(MIT OR Apache-2.0) AND NCSA", true),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true),
            ("GPL-3.0-only WITH GCC-exception-3.1", false),
            ("Apache-2.0 WITH Commons-Clause", false),
            ("MIT AND (BSD-3-Clause OR GPL-2.0-only)", true),
            ("(MIT OR BSD-3-Clause) AND LGPL-2.1-only", false),
            ("MPL-2.0", false),
        ];
        for (text, permissive) in cases {
            assert_eq!(parse(text).unwrap().is_permissive(), permissive, "{text}");
        }
    }

    #[test]
    fn and_binds_tighter_than_or() {
        // Read from left to right this would demand the GPL.
        assert!(parse("MIT OR Apache-2.0 AND GPL-2.0-only").unwrap().is_permissive());
        assert!(!parse("GPL-2.0-only AND Apache-2.0 OR LGPL-3.0-only").unwrap().is_permissive());
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "MIT OR", "OR MIT", "(MIT", "MIT)", "MIT Apache-2.0", "MIT WITH", "MIT AND AND ISC"]
        {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
