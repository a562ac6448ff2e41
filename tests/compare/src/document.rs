//! Files that the numbers go into. In a document the text between two markers is replaced:
//! `<!-- compare: WHICH -->` and `<!-- end of compare -->`.

use std::path::Path;

use crate::Failure;

const BEGIN: &str = "<!-- compare: ";
const BEGIN_END: &str = " -->\n";
const END: &str = "<!-- end of compare -->";

/// Which numbers a document wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    All,
    Largest,
}

pub(crate) fn put(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|e| format!("writing {}: {e}", path.display()).into())
}

pub(crate) fn fill(path: &Path, block: impl Fn(Which) -> String) -> Result<(), Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("reading {}: {e}", path.display()))?;
    let filled = filled(&text, block).map_err(|problem| format!("{}: {problem}", path.display()))?;
    put(path, &filled)
}

fn filled(text: &str, block: impl Fn(Which) -> String) -> Result<String, String> {
    let (before, rest) =
        text.split_once(BEGIN).ok_or(format!("no line {BEGIN}all{}", BEGIN_END.trim_end()))?;
    let (word, rest) = rest.split_once(BEGIN_END).ok_or("the first marker does not end its line")?;
    let (_, after) = rest.split_once(END).ok_or(format!("no line {END}"))?;
    let which = match word {
        "all" => Which::All,
        "largest" => Which::Largest,
        _ => return Err(format!("the first marker says {word:?}, neither all nor largest")),
    };
    Ok(format!("{before}{BEGIN}{word}{BEGIN_END}{}{END}{after}", block(which)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let text = "# Head\n<!-- compare: largest -->\nold\n<!-- end of compare -->\ntail\n";
        let new = filled(text, |which| format!("{which:?}\n")).unwrap();
        assert_eq!(new, text.replace("old", "Largest"));
        assert_eq!(filled(&new, |which| format!("{which:?}\n")).unwrap(), new);
    }

    #[test]
    fn a_document_without_markers_is_refused() {
        for text in ["", "<!-- compare: all -->\n", "<!-- compare: some -->\n<!-- end of compare -->"] {
            assert!(filled(text, |_| String::new()).is_err(), "{text:?}");
        }
    }
}
