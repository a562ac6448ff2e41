//! The files of the repository, without what builds and git keep there.

use std::fs;
use std::path::{Path, PathBuf};

use crate::root;

/// A text file, and where it is seen from the root.
#[derive(Clone, Debug)]
pub struct File {
    pub path: String,
    pub text: String,
}

impl File {
    pub fn has_end(&self, end: &str) -> bool {
        self.path.ends_with(end)
    }
}

/// Every text file, sorted by path.
pub fn files() -> Vec<File> {
    let mut paths = Vec::new();
    gather(root(), &mut paths);
    paths.sort();
    paths.iter().filter_map(|path| read(path)).collect()
}

fn read(path: &Path) -> Option<File> {
    // What is not UTF-8 is no text of ours.
    let text = fs::read_to_string(path).ok()?;
    let path = path.strip_prefix(root()).ok()?;
    Some(File { path: path.display().to_string(), text })
}

fn gather(folder: &Path, paths: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        match name.to_str() {
            Some(".git" | "target") => {}
            _ if is_folder => gather(&entry.path(), paths),
            _ => paths.push(entry.path()),
        }
    }
}

/// Lines of `text` that hold `word` with no letter, digit or underscore beside it, numbered from 1.
pub fn lines_with_word<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let stands_alone = move |line: &str, at: usize| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        let after = line.get(at + word.len()..).and_then(|after| after.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    };
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    numbered.filter(move |(_, line)| line.match_indices(word).any(|(at, _)| stands_alone(line, at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_alone() {
        let text = "a brake\nbrake\nbraked\nhand_brake\n(brake)";
        let lines: Vec<usize> = lines_with_word(text, "brake").map(|(number, _)| number).collect();
        assert_eq!(lines, [1, 2, 5]);
    }
}
