//! Rules as text: the words of a line, where a comment is one word whatever it says.

/// The words of a rule, less the quotes around them.
pub fn words(rule: &str) -> impl Iterator<Item = &str> {
    let mut rest = rule;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let (word, behind) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let end = closing(quoted);
                (quoted.get(..end)?, quoted.get(end + 1..).unwrap_or_default())
            }
            None => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (rest.get(..end)?, rest.get(end..)?)
            }
        };
        let is_end = rest.is_empty();
        rest = behind;
        (!is_end).then_some(word)
    })
}

/// Where a quotation ends; the tools write a quote within one behind a backslash.
fn closing(quoted: &str) -> usize {
    let mut is_escaped = false;
    let end = quoted.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.unwrap_or(quoted.len())
}

/// The chain or target that a rule leads to.
pub fn target(rule: &str) -> Option<&str> {
    let mut words = words(rule);
    loop {
        match words.next()? {
            "-j" | "-g" | "--jump" | "--goto" => return words.next(),
            "--comment" => drop(words.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_is_one_word() {
        let rule = "-A X -m comment --comment \"see -j KUBE-SERVICES, \\\"it\\\" helps\" -j ACCEPT ";
        let found: Vec<&str> = words(rule).collect();
        let comment = "see -j KUBE-SERVICES, \\\"it\\\" helps";
        assert_eq!(found, ["-A", "X", "-m", "comment", "--comment", comment, "-j", "ACCEPT"]);
        assert_eq!(target(rule), Some("ACCEPT"));
        assert_eq!(target("-A X -m comment --comment -j -g Y"), Some("Y"));
        assert_eq!(target("-A X -m comment --comment \"never closed -j Y"), None);
        assert_eq!(words("").count() + words("  ").count(), 0);
        assert_eq!(words("\"\" a").collect::<Vec<_>>(), ["", "a"]);
    }
}
