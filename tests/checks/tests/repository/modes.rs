//! A proxy mode is one folder of crates/dataplane and one line there: the agent around it names none. Only crates/config
//! does, because an operator may write them.

use checks::files::{File, files};

/// The folders of crates/dataplane that hold a mode.
fn folders() -> Vec<String> {
    let folder = |file: &File| {
        let (folder, _) = file.path.strip_prefix("crates/dataplane/src/")?.split_once('/')?;
        file.text.contains("\nimpl Mode for ").then(|| folder.to_owned())
    };
    files().iter().filter_map(folder).collect()
}

/// How code reaches for one mode: its folder, what the kernel crate has for it, its word in the configuration.
fn names(folder: &str) -> [String; 3] {
    let (first, rest) = folder.split_at(1);
    let variant = format!("Mode::{}{rest}", first.to_uppercase());
    [format!("dataplane::{folder}"), format!("kernel::{folder}"), variant]
}

fn is_checked(file: &File) -> bool {
    let is_test = file.has_end("tests.rs") || file.path.contains("/tests/");
    file.path.starts_with("crates/agent/src/") && file.has_end(".rs") && !is_test
}

#[test]
fn the_agent_names_no_mode() {
    let folders = folders();
    assert!(folders.len() >= 3, "{folders:?}");
    let mut names: Vec<String> = folders.iter().flat_map(|folder| names(folder)).collect();
    names.push("kernel::nft".to_owned());
    let mut findings = Vec::new();
    for file in files().into_iter().filter(is_checked) {
        // The tests of a file come last, and may choose a mode.
        let production = file.text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let lines = production.lines().enumerate();
        let named = lines.filter(|(_, line)| names.iter().any(|name| line.contains(name.as_str())));
        findings.extend(named.map(|(index, line)| format!("{}:{}: {line}", file.path, index + 1)));
    }
    assert!(
        findings.is_empty(),
        "move what is particular to a mode into its folder of crates/dataplane:\n{}",
        findings.join("\n")
    );
}
