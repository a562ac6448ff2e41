//! A proxy mode is one folder of crates/dataplane and one line there: the agent around it names none. Besides, only the
//! list of modes in crates/model and what an operator may configure in crates/config do.

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

/// Files outside its folder that a mode needs: where it is listed, its settings, and what the configuration says of it.
const MOST_FILES: usize = 3;

/// Modes that others stand on: the table of mode nftables is theirs, and the settings of mode iptables too.
const SHARED: [&str; 2] = ["nftables", "iptables"];

/// Production code that has to be changed for a mode.
fn is_production(file: &File, folder: &str) -> bool {
    let own = format!("crates/dataplane/src/{folder}/");
    let is_test = file.has_end("tests.rs") || file.path.contains("/tests/");
    // Crate kernel offers what the kernel has, and knows no modes. What simulates a kernel serves tests.
    let others = ["crates/kernel/", "crates/simulate/"];
    let is_other = others.iter().any(|other| file.path.starts_with(other));
    let is_code = file.path.starts_with("crates/") && file.path.contains("/src/") && file.has_end(".rs");
    is_code && !is_test && !is_other && !file.path.starts_with(&own)
}

#[test]
fn a_mode_needs_three_files_outside_its_folder() {
    for folder in folders().iter().filter(|folder| !SHARED.contains(&folder.as_str())) {
        let (first, rest) = folder.split_at(1);
        let title = format!("{}{rest}", first.to_uppercase());
        // Its variant, its settings, its module and its field.
        let signs = [
            format!("Mode::{title}"),
            format!("{title}Settings"),
            format!("{folder}::"),
            format!("mod {folder};"),
            format!(".{folder}"),
        ];
        let names_it = |file: &File| {
            let production = file.text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            let mut code = production.lines().filter(|line| !line.trim_start().starts_with("//"));
            code.any(|line| signs.iter().any(|sign| has_sign(line, sign)))
        };
        let all = files().into_iter().filter(|file| is_production(file, folder) && names_it(file));
        let paths: Vec<String> = all.map(|file| file.path).collect();
        assert!(!paths.is_empty() && paths.len() <= MOST_FILES, "mode {folder} is named in {paths:#?}");
    }
}

/// As a word of its own: `ipvs::` but not `removal_of_ipvs::`.
fn has_sign(line: &str, sign: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(sign).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + sign.len()..].chars().next();
        let begins = sign.starts_with('.') || !before.is_some_and(is_word);
        begins && (sign.ends_with(':') || !after.is_some_and(is_word))
    })
}
