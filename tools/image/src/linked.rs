//! What is linked into the agent, as cargo tells: every crate of a target with its version, licence and folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::Failure;

/// The package whose program is shipped.
const AGENT: &str = "pointsman-agent";

/// A crate that is part of the program. Build scripts and procedural macros are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crate {
    pub name: String,
    pub version: String,
    /// The SPDX expression.
    pub licence: String,
    pub description: String,
    pub repository: Option<String>,
    /// Where its sources are.
    pub folder: PathBuf,
    /// Of the archive in the registry; `None` for those of this project.
    pub checksum: Option<String>,
    /// Names and versions.
    pub dependencies: Vec<(String, String)>,
}

/// The crates of the agent for `target`, by name.
pub fn crates(root: &Path, target: &str) -> Result<Vec<Crate>, Failure> {
    // The metadata unites the features of the whole workspace; the tree is of the agent alone.
    let tree = [
        "tree",
        "--locked",
        "-p",
        AGENT,
        "-e",
        "normal,no-proc-macro",
        "--prefix=none",
        "--no-dedupe",
        "--format={p}",
        "--target",
        target,
    ];
    let tree = cargo(root, &tree)?;
    let metadata = cargo(root, &["metadata", "--locked", "--format-version=1", "--filter-platform", target])?;
    let lock = std::fs::read_to_string(root.join("Cargo.lock"))?;
    let mut found = described(&serde_json::from_str(&metadata)?, &listed(&tree), &checksums(&lock))?;
    found.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    Ok(found)
}

/// Lines such as `hyper v1.12.0` and `pointsman-model v0.1.0 (/path)`.
fn listed(tree: &str) -> BTreeSet<(String, String)> {
    let pair = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
    };
    tree.lines().filter_map(pair).collect()
}

/// The checksums in Cargo.lock, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.map(|rest| rest.trim_end_matches('"').to_owned())
    };
    let package =
        |block: &str| Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?));
    lock.split("[[package]]").filter_map(package).collect()
}

fn described(
    metadata: &Value,
    wanted: &BTreeSet<(String, String)>,
    checksums: &BTreeMap<(String, String), String>,
) -> Result<Vec<Crate>, Failure> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let identity = |package: &Value| Some((text(&package["name"])?, text(&package["version"])?));
    let by_id: BTreeMap<&str, (String, String)> = packages
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, identity(package)?)))
        .filter(|(_, identity)| wanted.contains(identity))
        .collect();
    let nodes = metadata["resolve"]["nodes"].as_array().ok_or("cargo metadata has no graph")?;
    let dependencies = |id: &str| -> Vec<(String, String)> {
        let node = nodes.iter().find(|node| node["id"] == id);
        let uses = node.and_then(|node| node["deps"].as_array()).into_iter().flatten();
        let is_linked = |used: &&Value| {
            used["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
        };
        let mut names: Vec<(String, String)> =
            uses.filter(is_linked).filter_map(|used| by_id.get(used["pkg"].as_str()?).cloned()).collect();
        names.sort();
        names.dedup();
        names
    };
    let one = |package: &Value| -> Option<Crate> {
        let id = package["id"].as_str()?;
        let (name, version) = by_id.get(id)?.clone();
        Some(Crate {
            licence: text(&package["license"]).unwrap_or_default(),
            description: text(&package["description"]).unwrap_or_default().trim().replace('\n', " "),
            repository: text(&package["repository"]),
            folder: Path::new(package["manifest_path"].as_str()?).parent()?.to_owned(),
            checksum: checksums.get(&(name.clone(), version.clone())).cloned(),
            dependencies: dependencies(id),
            name,
            version,
        })
    };
    let found: Vec<Crate> = packages.iter().filter_map(one).collect();
    match wanted.len() == found.len() {
        true => Ok(found),
        false => {
            Err(format!("cargo tree lists {} crates, cargo metadata {}", wanted.len(), found.len()).into())
        }
    }
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<String, Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(arguments).current_dir(root).output();
    let output = output.map_err(|error| format!("cargo cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout)?);
    }
    Err(format!("cargo {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_found_with_what_it_links_and_nothing_else() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let all = crates(&root, "x86_64-unknown-linux-gnu").unwrap();
        let find = |name: &str| all.iter().find(|each| each.name == name);
        let agent = find(AGENT).unwrap();
        assert_eq!((agent.version.as_str(), &agent.checksum), (env!("CARGO_PKG_VERSION"), &None));
        assert!(agent.dependencies.iter().any(|(name, _)| name == "pointsman-kernel"), "{agent:?}");
        let hyper = find("hyper").unwrap();
        assert_eq!(hyper.checksum.as_ref().map(String::len), Some(64));
        assert!(hyper.folder.join("Cargo.toml").exists());
        for absent in ["serde_derive", "proptest", "pointsman-sandbox", "pointsman-simulate"] {
            assert!(find(absent).is_none(), "{absent} is not part of the program");
        }
        assert!(all.iter().all(|each| !each.licence.is_empty()));
    }

    #[test]
    fn checksums_come_from_the_lock_file() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"x\"\nchecksum = \"ab\"\n\n[[package]]\nname = \"b\"\nversion = \"2.0.0\"\n";
        let all = checksums(lock);
        assert_eq!(all.len(), 1);
        assert_eq!(all[&("a".to_owned(), "1.0.0".to_owned())], "ab");
    }
}
