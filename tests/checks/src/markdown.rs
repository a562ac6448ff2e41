//! Links and tables of Markdown text, as far as our documents use them.

/// Where the links and pictures of a text point to.
pub fn links(text: &str) -> Vec<&str> {
    let outside_code = text.split("```").step_by(2);
    outside_code
        .flat_map(|part| {
            let linked = part.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            let shown = part.split(" src=\"").skip(1).filter_map(|rest| rest.split_once('"'));
            linked.chain(shown).map(|(target, _)| target)
        })
        .collect()
}

/// The anchors of a text's headings, made the way code hosts make them.
pub fn anchors(text: &str) -> Vec<String> {
    let outside_code = text.split("```").step_by(2);
    let headings = outside_code.flat_map(str::lines).filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// The rows of all tables, cell by cell; heads and rulers included.
pub fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = text.lines().filter_map(|line| line.strip_prefix('|')?.trim_end().strip_suffix('|'));
    rows.map(|row| row.split('|').map(str::trim).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_pictures() {
        let text = "[a](b.md) and ![c](d.svg)\n```\n[no](code)\n```\n<img alt=\"e\" src=\"f.png\"> [g](#h)";
        assert_eq!(links(text), ["b.md", "d.svg", "#h", "f.png"]);
    }

    #[test]
    fn headings_become_anchors() {
        let text = "# The walk, once more\n```\n# no heading\n```\n## `lb-N` & co\n";
        assert_eq!(anchors(text), ["the-walk-once-more", "lb-n--co"]);
    }

    #[test]
    fn rows_of_tables() {
        let rows: Vec<_> = rows("| a | b |\n| --- | --- |\ntext\n| c | d |").collect();
        assert_eq!(rows, [["a", "b"], ["---", "---"], ["c", "d"]]);
    }
}
