//! Rules for the text of all files.

use checks::files::{File, files, lines_with_word};

const LONGEST_FILE: usize = 500;

/// Put together here, so that this file does not hold them itself.
const UNSAFE: &str = concat!("un", "safe");
const LEFT_OVERS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];
const OF_THE_WORKSHOP: [&str; 5] = [
    concat!("sub", "agent"),
    concat!("this ", "session"),
    concat!("CLAU", "DE"),
    concat!("/wo", "rk/"),
    concat!("/tmp/tar", "get-"),
];

fn is_prose_or_code(file: &File) -> bool {
    [".rs", ".md", ".toml", ".awk", ".yaml"].iter().any(|end| file.has_end(end)) || !file.path.contains('.')
}

fn refuse(findings: Vec<String>, advice: &str) {
    assert!(findings.is_empty(), "{advice}:\n{}", findings.join("\n"));
}

#[test]
fn system_calls_stay_in_the_kernel_crate() {
    let elsewhere = files().into_iter().filter(|f| f.has_end(".rs") && !f.path.starts_with("crates/kernel/"));
    let findings = elsewhere.flat_map(|file| {
        // A flag of etcd is none of ours.
        let lines = lines_with_word(&file.text, UNSAFE).filter(|(_, line)| !line.contains("-no-fsync"));
        lines.map(|(number, line)| format!("{}:{number}: {line}", file.path)).collect::<Vec<_>>()
    });
    refuse(findings.collect(), "move this into crates/kernel");
}

#[test]
fn files_are_short_enough_to_read() {
    let long = files().into_iter().filter(|file| is_prose_or_code(file) && file.path != "LICENSE");
    let long = long.map(|file| (file.text.lines().count(), file.path));
    let long = long.filter(|(lines, _)| *lines > LONGEST_FILE);
    refuse(long.map(|(lines, path)| format!("{path}: {lines} lines")).collect(), "divide these");
}

#[test]
fn nothing_is_left_over() {
    let mut findings = Vec::new();
    for file in files() {
        for word in LEFT_OVERS {
            let lines = lines_with_word(&file.text, word);
            findings.extend(lines.map(|(number, line)| format!("{}:{number}: {line}", file.path)));
        }
        for phrase in OF_THE_WORKSHOP {
            let lines = file.text.lines().enumerate().filter(|(_, line)| line.contains(phrase));
            findings.extend(lines.map(|(index, line)| format!("{}:{}: {line}", file.path, index + 1)));
        }
    }
    refuse(findings, "these do not belong in the project");
}

#[test]
fn modules_say_what_they_hold() {
    let sources = files().into_iter().filter(|file| file.has_end(".rs"));
    let silent = sources.filter(|file| !file.text.starts_with("//!"));
    // The tests of a module need no head of their own; the module has one.
    let silent = silent.filter(|file| !file.has_end("tests.rs"));
    refuse(silent.map(|file| file.path).collect(), "begin these with a `//!` head");
}
