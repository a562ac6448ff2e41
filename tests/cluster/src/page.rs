//! The commands of docs/deploy.md, in the order of the page.
//!
//! What a fence without a language holds is commands. Files and values are in fences that name theirs.

/// The programs that the page may tell an operator to run.
const PROGRAMS: &[&str] = &["kubectl", "helm", "make"];
/// Fences with these hold no commands.
const LANGUAGES: &[&str] = &["yaml", "text"];

/// One fence of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The heading above it.
    pub section: String,
    /// Counted from 0 in its section.
    pub number: usize,
    pub commands: Vec<String>,
}

/// The error names what a test would not know how to run.
pub fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut section, mut number) = (String::new(), 0);
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(heading) = line.strip_prefix('#') {
            section = heading.trim_start_matches('#').trim().to_owned();
            number = 0;
        }
        let Some(language) = line.trim_start().strip_prefix("```") else { continue };
        let inside: Vec<&str> = lines.by_ref().map(str::trim).take_while(|line| *line != "```").collect();
        if LANGUAGES.contains(&language) {
            continue;
        }
        if !language.is_empty() {
            return Err(format!("{section}: a fence of {language:?}; commands have no language"));
        }
        let commands = joined(&inside);
        if let Some(other) = commands.iter().find(|command| !PROGRAMS.contains(&program(command))) {
            return Err(format!("{section}: {other:?} runs none of {PROGRAMS:?}"));
        }
        blocks.push(Block { section: section.clone(), number, commands });
        number += 1;
    }
    Ok(blocks)
}

/// With lines that end in a backslash as one, and without empty ones.
fn joined(lines: &[&str]) -> Vec<String> {
    let text = lines.join("\n").replace("\\\n", "");
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn program(command: &str) -> &str {
    command.split_whitespace().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_below_their_headings() {
        let page = "# Top\n```\nmake image   # both\n```\n## Next\n1. List\n\n   ```\n   kubectl get \\\n     pods\n\n   helm \
                    list\n   ```\n```yaml\na: 1\n```\n```\nhelm test x\n```\n";
        let found = blocks(page).unwrap();
        let short: Vec<_> = found.iter().map(|b| (&*b.section, b.number, b.commands.len())).collect();
        assert_eq!(short, [("Top", 0, 1), ("Next", 0, 2), ("Next", 1, 1)]);
        assert_eq!(found[1].commands, ["kubectl get pods", "helm list"]);
    }

    #[test]
    fn what_no_test_would_run_is_refused() {
        assert!(blocks("# A\n```\ndocker build .\n```\n").unwrap_err().contains("docker build"));
        assert!(blocks("# A\n```sh\nkubectl get pods\n```\n").unwrap_err().contains("\"sh\""));
    }
}
