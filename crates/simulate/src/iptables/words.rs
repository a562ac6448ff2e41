//! A line of a script as words, and a cursor over them.

/// Words are separated by blanks; inside double quotes a backslash takes the next character as it is.
pub(super) fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' if quoted => word.get_or_insert_default().extend(characters.next()),
            ' ' | '\t' if !quoted => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    if quoted { Err("a quote that does not end".to_owned()) } else { Ok(words) }
}

/// What is left of a line.
pub(super) struct Words<'w> {
    rest: &'w [String],
}

impl<'w> Words<'w> {
    pub(super) fn new(rest: &'w [String]) -> Words<'w> {
        Words { rest }
    }

    pub(super) fn next(&mut self) -> Option<&'w str> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    pub(super) fn peek(&self) -> Option<&'w str> {
        self.rest.first().map(String::as_str)
    }

    /// The next word if it is one of these options, and whether a `!` stands before it.
    pub(super) fn option(&mut self, known: &[&str]) -> Option<(bool, &'w str)> {
        let negated = self.peek() == Some("!");
        let option = self.rest.get(usize::from(negated))?;
        if !known.contains(&option.as_str()) {
            return None;
        }
        self.rest = self.rest.get(usize::from(negated) + 1..)?;
        Some((negated, option))
    }

    /// As [`option`](Words::option), of options that no `!` may stand before.
    pub(super) fn plain_option(&mut self, known: &[&str]) -> Result<Option<&'w str>, String> {
        match self.option(known) {
            Some((true, option)) => Err(format!("unexpected ! before {option}")),
            Some((false, option)) => Ok(Some(option)),
            None => Ok(None),
        }
    }

    pub(super) fn value(&mut self, option: &str) -> Result<&'w str, String> {
        self.next().ok_or_else(|| format!("option {option} requires an argument"))
    }
}

/// For an option that may be given once.
pub(super) fn set_once<T>(place: &mut Option<T>, value: T, option: &str) -> Result<(), String> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("multiple {option} options are not allowed")),
    }
}
