//! What a tool that failed meant by its words. They differ by variant, and the exit codes tell less.

use std::path::Path;

use super::{Terms, ToolError, target};

/// The error that a tool's words stand for.
pub(crate) fn judge(tool: &Path, said: &str, script: &str, terms: &Terms) -> ToolError {
    let words = essence(said);
    let line = failed_line(said, script);
    // What the kernel says to one line is about that line, not about all of them.
    let says = |always: &[&str], without_line: &[&str]| {
        let has = |signs: &[&str]| signs.iter().any(|sign| said.contains(sign));
        has(always) || line.is_none() && has(without_line)
    };
    let tool = tool.to_owned();
    if says(&["holding the xtables lock"], &[]) {
        ToolError::Locked { tool, file: terms.lock_file(), seconds: terms.lock_seconds }
    } else if says(&["open lock file"], &[]) {
        ToolError::LockFile { tool, file: terms.lock_file(), said: reason(&words) }
    } else if says(&["you must be root"], &["Operation not permitted"]) {
        ToolError::NotPermitted { tool, said: words }
    } else if says(&WITHOUT_TABLES, &["Protocol not supported", "Address family not supported"]) {
        ToolError::NoTables { tool, said: words }
    } else {
        ToolError::refused(&tool, words, line, script)
    }
}

const WITHOUT_TABLES: [&str; 3] =
    ["unable to initialize table", "Table does not exist", "Failed to initialize nft"];

/// On one line, without advice to read the manual.
fn essence(said: &str) -> String {
    let is_noise = |line: &str| {
        let noise = ["Error occurred at line:", "Try `", "# Warning:", "Perhaps iptables or your kernel"];
        line.is_empty() || noise.iter().any(|start| line.starts_with(start))
    };
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !is_noise(line)).collect();
    lines.join("; ").replace(":; ", ": ")
}

/// What follows the last colon: the name of the file is known.
fn reason(words: &str) -> String {
    words.rsplit(": ").next().unwrap_or(words).to_owned()
}

/// The number, from 1, of the line that the tool stopped at.
fn failed_line(said: &str, script: &str) -> Option<usize> {
    // The nf_tables variant looks at targets when it meets COMMIT, and names that line.
    if let Some(line) = missing_target(said).and_then(|chain| jump_to(script, chain)) {
        return Some(line);
    }
    said.lines().find_map(|line| {
        let number = line.strip_prefix("Error occurred at line: ").or_else(|| line.strip_prefix("line "));
        let number = number
            .or_else(|| Some(line.split_once("restore: line ")?.1).filter(|rest| rest.contains("failed")));
        let number = number.or_else(|| Some(line.split_once("COMMIT expected at line ")?.1))?;
        let digits = number.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    })
}

fn missing_target(said: &str) -> Option<&str> {
    let (_, rest) = said.split_once("Chain '")?;
    rest.split_once("' does not exist").map(|(chain, _)| chain)
}

fn jump_to(script: &str, chain: &str) -> Option<usize> {
    let is_jump = |line: &str| target(line) == Some(chain);
    script.lines().position(is_jump).map(|index| index + 1)
}

/// A script's line of that number, from 1.
pub(super) fn line_of(script: &str, number: usize) -> Option<&str> {
    script.lines().nth(number.checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "*nat\n:A - [0:0]\n-A A -m comment --comment \"ns/web:http\" -j NOPE\nCOMMIT\n";

    fn judged(said: &str) -> ToolError {
        judge(Path::new("/t"), said, SCRIPT, &Terms { lock_file: Some("/l".into()), ..Terms::default() })
    }

    #[test]
    fn both_variants_name_the_line() {
        for (said, expected) in [
            (
                "iptables-restore v1.8.9 (legacy): Couldn't load target `NOPE':No such file or directory\n\nError occurred at line: 3\nTry `iptables-restore -h' or 'iptables-restore --help' for more information.",
                3,
            ),
            (
                "iptables-nft-restore v1.8.9 (nf_tables): Chain 'NOPE' does not exist\nError occurred at line: 4\nTry",
                3,
            ),
            ("iptables-restore: line 2 failed", 2),
            ("iptables-nft-restore: line 3 failed: Bad rule (does a matching rule exist in that chain?).", 3),
            (
                "iptables-nft-restore v1.8.9 (nf_tables): \nline 3: CHAIN_DEL failed (Device or resource busy): chain B",
                3,
            ),
            ("iptables-restore: COMMIT expected at line 4", 4),
        ] {
            let ToolError::Refused { line, .. } = judged(said) else { panic!("{said}") };
            assert_eq!(line, Some(expected), "{said}");
        }
    }

    #[test]
    fn the_line_is_quoted_and_the_words_are_on_one_line() {
        let error = judged(
            "iptables-restore v1.8.9 (legacy): host/network `1.2.3.400' not found\nError occurred at line: 3\nTry `iptables-restore -h' or so.",
        );
        assert_eq!(
            error.to_string(),
            r#"/t failed at line 3, "-A A -m comment --comment \"ns/web:http\" -j NOPE": iptables-restore v1.8.9 (legacy): host/network `1.2.3.400' not found"#
        );
        let error = judged("iptables-restore: line 4 failed");
        assert_eq!(
            error.to_string(),
            "/t failed: the kernel refused the table that ends at line 4: iptables-restore: line 4 failed"
        );
    }

    #[test]
    fn what_the_kernel_says_to_a_line_is_about_that_line() {
        let error = judged(
            "iptables-nft-restore v1.8.9 (nf_tables): \nline 3: RULE_APPEND failed (Operation not permitted): rule in chain A",
        );
        assert!(matches!(&error, ToolError::Refused { line: Some(3), .. }), "{error:?}");
        assert!(error.to_string().contains("(nf_tables): line 3: RULE_APPEND failed"), "{error}");
    }

    #[test]
    fn circumstances_are_told_from_mistakes() {
        let locked = judged(
            "Can't lock /l: Resource temporarily unavailable\nAnother app is currently holding the xtables lock. Stopped waiting after 5s.",
        );
        assert!(matches!(&locked, ToolError::Locked { seconds: 5, .. }), "{locked:?}");
        assert!(locked.to_string().contains("waited 5 s for the lock of the tables, /l,"), "{locked}");
        let file = judged("Fatal: can't open lock file /l: Read-only file system");
        assert!(file.to_string().contains("/l: Read-only file system; mount"), "{file}");
        let denied = judged(
            "iptables v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied (you must be root)",
        );
        assert!(matches!(denied, ToolError::NotPermitted { .. }), "{denied:?}");
        let none = judged(
            "iptables v1.8.9 (legacy): can't initialize iptables table `nat': Table does not exist (do you need to insmod?)\nPerhaps iptables or your kernel needs to be upgraded.",
        );
        assert!(matches!(&none, ToolError::NoTables { said, .. } if said.ends_with("insmod?)")), "{none:?}");
    }
}
