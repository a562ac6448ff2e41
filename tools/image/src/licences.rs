//! The licences of everything linked into the program, as one text: each licence once, below the crates that have it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::Failure;
use crate::linked::Crate;

/// How files begin that hold a licence or a notice.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

/// `others` are names and texts of what cargo does not know.
pub fn text(crates: &[Crate], others: &[(String, String)]) -> Result<String, Failure> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut without = Vec::new();
    for each in crates.iter().filter(|each| each.checksum.is_some()) {
        let name = format!("{} {} ({})", each.name, each.version, each.licence);
        let found = files(&each.folder)?;
        if found.is_empty() {
            without.push(name.clone());
        }
        for text in found {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    for (name, text) in others {
        texts.entry(tidy(text)).or_default().push(name.clone());
    }
    let mut all = String::from(
        "Pointsman's kube-proxy is licensed under Apache-2.0. It is linked with the following.\n",
    );
    let mut sorted: Vec<(String, Vec<String>)> = texts.into_iter().collect();
    sorted.sort_by(|one, other| (&one.1, &one.0).cmp(&(&other.1, &other.0)));
    for (text, names) in sorted {
        // Writing to a String cannot fail.
        let _ = write!(all, "\n{}\n{}\n\n{text}\n", "=".repeat(80), names.join("\n"));
    }
    if !without.is_empty() {
        let _ = write!(
            all,
            "\n{}\nThese come without a file; their licence is the one named beside them.\n\n{}\n",
            "=".repeat(80),
            without.join("\n")
        );
    }
    Ok(all)
}

fn files(folder: &Path) -> Result<Vec<String>, Failure> {
    let listed = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<_> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let is_licence = |path: &Path| {
        let name = path.file_name().map(|name| name.to_string_lossy().to_uppercase()).unwrap_or_default();
        path.is_file() && NAMES.iter().any(|beginning| name.starts_with(beginning))
    };
    let read = |path: &Path| fs::read(path).map(|bytes| tidy(&String::from_utf8_lossy(&bytes)));
    paths.iter().filter(|path| is_licence(path)).map(|path| Ok(read(path)?)).collect()
}

/// Without what differs between copies of the same text.
fn tidy(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_two_share_is_written_once() {
        let root = std::env::temp_dir().join(format!("pointsman-licences-{}", std::process::id()));
        let of = |name: &str, files: &[(&str, &str)]| {
            let folder = root.join(name);
            fs::create_dir_all(&folder).unwrap();
            files.iter().for_each(|(file, text)| fs::write(folder.join(file), text).unwrap());
            Crate {
                name: name.to_owned(),
                version: "1.0.0".to_owned(),
                licence: "MIT".to_owned(),
                description: String::new(),
                repository: None,
                folder,
                checksum: Some("ab".to_owned()),
                dependencies: Vec::new(),
            }
        };
        let crates = [
            of("one", &[("LICENSE-MIT", "the terms  \r\nof MIT\n"), ("README", "no licence")]),
            of("two", &[("license.txt", "the terms\nof MIT")]),
            of("three", &[]),
        ];
        let all = text(&crates, &[("musl 1.2.5".to_owned(), "its terms".to_owned())]).unwrap();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(all.matches("the terms\nof MIT").count(), 1, "{all}");
        assert!(all.contains("one 1.0.0 (MIT)\ntwo 1.0.0 (MIT)\n\nthe terms"), "{all}");
        assert!(all.contains("musl 1.2.5\n\nits terms"), "{all}");
        assert!(all.ends_with("beside them.\n\nthree 1.0.0 (MIT)\n"), "{all}");
        assert!(!all.contains("no licence"));
    }
}
