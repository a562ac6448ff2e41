//! Tar archives in the ustar format that depend on names, contents and one time only.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::Failure;

const BLOCK: usize = 512;
/// The longest name of the short field, and of the one for folders in front of it.
const NAME: usize = 100;
const PREFIX: usize = 155;

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Folder,
    File { bytes: Vec<u8>, is_program: bool },
    Link { target: String },
}

/// An archive of which the entries belong to root and have one time.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    /// Seconds since 1970.
    time: u64,
}

impl Archive {
    pub fn new(time: u64) -> Archive {
        Archive { bytes: Vec::new(), time }
    }

    /// `name` is relative, without a dot in front.
    pub fn add(&mut self, name: &str, content: &Content) -> Result<(), Failure> {
        let (mode, kind, data, target) = match content {
            Content::Folder => (0o755, b'5', &[][..], ""),
            Content::File { bytes, is_program } => {
                (if *is_program { 0o755 } else { 0o644 }, b'0', &bytes[..], "")
            }
            Content::Link { target } => (0o777, b'2', &[][..], target.as_str()),
        };
        let name = if kind == b'5' { format!("{name}/") } else { name.to_owned() };
        self.bytes.extend(header(&name, mode, data.len(), self.time, kind, target)?);
        self.bytes.extend_from_slice(data);
        let rest = data.len().next_multiple_of(BLOCK) - data.len();
        self.bytes.extend(std::iter::repeat_n(0, rest));
        Ok(())
    }

    /// The whole, with the two empty blocks that end it.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.extend([0; 2 * BLOCK]);
        self.bytes
    }
}

/// All that is in `folder`, by name.
pub fn of_folder(folder: &Path, time: u64) -> Result<Vec<u8>, Failure> {
    let mut entries = Vec::new();
    collect(folder, "", &mut entries)?;
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut archive = Archive::new(time);
    for (name, content) in &entries {
        archive.add(name, content)?;
    }
    Ok(archive.finish())
}

fn collect(folder: &Path, prefix: &str, entries: &mut Vec<(String, Content)>) -> Result<(), Failure> {
    let listed = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in listed {
        let path = entry?.path();
        let last = path.file_name().and_then(|name| name.to_str());
        let last = last.ok_or_else(|| format!("{}: not a name in UTF-8", path.display()))?;
        let name = format!("{prefix}{last}");
        let about = fs::symlink_metadata(&path)?;
        if about.is_dir() {
            entries.push((name.clone(), Content::Folder));
            collect(&path, &format!("{name}/"), entries)?;
        } else if about.is_symlink() {
            entries.push((name, Content::Link { target: fs::read_link(&path)?.display().to_string() }));
        } else if about.is_file() {
            let is_program = about.permissions().mode() & 0o100 != 0;
            entries.push((name, Content::File { bytes: fs::read(&path)?, is_program }));
        } else {
            return Err(format!("{}: neither a file nor a folder nor a link", path.display()).into());
        }
    }
    Ok(())
}

fn header(
    name: &str,
    mode: u32,
    size: usize,
    time: u64,
    kind: u8,
    target: &str,
) -> Result<[u8; BLOCK], Failure> {
    let (prefix, short) = split(name)?;
    if target.len() > NAME {
        return Err(format!("{name}: the target of the link is longer than {NAME} bytes").into());
    }
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| {
        block.iter_mut().skip(at).zip(bytes).for_each(|(place, byte)| *place = *byte);
    };
    put(0, short.as_bytes());
    put(100, format!("{mode:07o}").as_bytes());
    put(108, b"0000000");
    put(116, b"0000000");
    put(124, format!("{size:011o}").as_bytes());
    put(136, format!("{time:011o}").as_bytes());
    put(148, b"        ");
    put(156, &[kind]);
    put(157, target.as_bytes());
    put(257, b"ustar\x0000");
    put(345, prefix.as_bytes());
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    let text = format!("{sum:06o}\0 ");
    block.iter_mut().skip(148).zip(text.as_bytes()).for_each(|(place, byte)| *place = *byte);
    Ok(block)
}

/// A long name goes into two fields, with a slash between them that neither holds.
fn split(name: &str) -> Result<(&str, &str), Failure> {
    if name.len() <= NAME {
        return Ok(("", name));
    }
    let fits = |at: &usize| *at <= PREFIX && name.len() - at - 1 <= NAME && name.len() > at + 1;
    let at = name.match_indices('/').map(|(at, _)| at).find(fits);
    at.map(|at| (&name[..at], &name[at + 1..])).ok_or_else(|| format!("{name}: too long for tar").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<u8> {
        let mut archive = Archive::new(1_700_000_000);
        let program = Content::File { bytes: b"#!/bin/sh\n".to_vec(), is_program: true };
        let long = format!("{}/{}", "f".repeat(90), "n".repeat(60));
        archive.add("bin", &Content::Folder).unwrap();
        archive.add("bin/tool", &program).unwrap();
        archive.add("bin/other", &Content::Link { target: "tool".to_owned() }).unwrap();
        archive.add(&long, &Content::File { bytes: vec![7; 600], is_program: false }).unwrap();
        archive.finish()
    }

    /// What the program of this machine makes of it.
    #[test]
    fn tar_reads_it() {
        let file = std::env::temp_dir().join(format!("pointsman-tar-{}.tar", std::process::id()));
        fs::write(&file, some()).unwrap();
        let output = std::process::Command::new("tar").args(["--utc", "-tvf"]).arg(&file).output().unwrap();
        fs::remove_file(&file).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["drwxr-xr-x", "0/0", "0", "2023-11-14", "22:13", "bin/"]);
        assert_eq!(lines[1][..3], ["-rwxr-xr-x", "0/0", "10"]);
        assert_eq!(lines[2][5..], ["bin/other", "->", "tool"]);
        assert_eq!((lines[3][0], lines[3][2]), ("-rw-r--r--", "600"));
        assert_eq!(lines[3][5].len(), 151);
    }

    #[test]
    fn a_folder_is_packed_by_name_and_not_by_the_order_of_its_making() {
        let folder = |names: &[&str], tag: &str| {
            let root = std::env::temp_dir().join(format!("pointsman-tree-{tag}-{}", std::process::id()));
            for name in names {
                let path = root.join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, name).unwrap();
            }
            let bytes = of_folder(&root, 7).unwrap();
            fs::remove_dir_all(root).unwrap();
            bytes
        };
        let (one, other) = (folder(&["b/c", "a", "b/a"], "1"), folder(&["b/a", "b/c", "a"], "2"));
        assert_eq!(one, other);
        assert_ne!(one, folder(&["b/a", "a"], "3"));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut archive = Archive::new(0);
        let error = archive.add(&"x".repeat(101), &Content::Folder).unwrap_err();
        assert!(error.to_string().ends_with("too long for tar"), "{error}");
        let link = Content::Link { target: "y".repeat(101) };
        assert!(archive.add("x", &link).is_err());
    }
}
