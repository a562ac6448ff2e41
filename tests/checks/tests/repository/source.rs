//! Rules for the text of all files.

use checks::files::{File, files, lines_with_word};

const LONGEST_FILE: usize = 500;

/// This file, which has to name what it looks for.
const ITSELF: &str = "tests/checks/tests/repository/source.rs";

fn is_prose_or_code(file: &File) -> bool {
    [".rs", ".md", ".toml", ".awk", ".yaml"].iter().any(|end| file.has_end(end)) || !file.path.contains('.')
}

fn refuse(findings: Vec<String>, advice: &str) {
    assert!(findings.is_empty(), "{advice}:\n{}", findings.join("\n"));
}

#[test]
fn system_calls_stay_in_the_kernel_crate() {
    let elsewhere = files().into_iter().filter(|file| {
        file.has_end(".rs") && !file.path.starts_with("crates/kernel/") && file.path != ITSELF
    });
    let findings = elsewhere.flat_map(|file| {
        // A flag of etcd is none of ours.
        let lines = lines_with_word(&file.text, "unsafe").filter(|(_, line)| !line.contains("-no-fsync"));
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

/// Whatever grows beyond this is more than one thing. What speaks to the kernel, or stands for it, is as large as the kernel
/// makes it.
#[test]
fn crates_are_small_enough_to_know() {
    const LARGEST: usize = 12_000;
    let mut lines = std::collections::BTreeMap::<String, usize>::new();
    for file in files().into_iter().filter(|file| file.has_end(".rs")) {
        let Some((folder, _)) = file.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        *lines.entry(folder.to_owned()).or_default() += file.text.lines().count();
    }
    assert!(lines.len() > 10, "{lines:?}");
    let large = lines
        .into_iter()
        .filter(|(name, count)| *count > LARGEST && !["kernel", "simulate"].contains(&name.as_str()));
    refuse(large.map(|(name, count)| format!("crates/{name}: {count} lines")).collect(), "divide these");
}

#[test]
fn nothing_is_left_over() {
    let mut findings = Vec::new();
    for file in files().into_iter().filter(|file| file.path != ITSELF) {
        for word in ["TODO", "FIXME"] {
            let lines = lines_with_word(&file.text, word);
            findings.extend(lines.map(|(number, line)| format!("{}:{number}: {line}", file.path)));
        }
    }
    refuse(findings, "do these, or leave them out");
}

#[test]
fn modules_say_what_they_hold() {
    let sources = files().into_iter().filter(|file| file.has_end(".rs"));
    let silent = sources.filter(|file| !file.text.starts_with("//!"));
    // The tests of a module need no head of their own; the module has one.
    let silent = silent.filter(|file| !file.has_end("tests.rs"));
    refuse(silent.map(|file| file.path).collect(), "begin these with a `//!` head");
}
