//! Who depends on whom, under which licence, and whether it is written down.

use std::collections::BTreeSet;

use checks::licence;
use checks::markdown::rows;
use checks::packages::{Package, packages};

/// What each crate may use of ours. Packages outside `crates/` may use everything but the agent: they run its binary.
const DIRECTIONS: &[(&str, &[&str])] = &[
    ("crates/agent", &["cluster", "commands", "config", "dataplane", "kernel", "model", "telemetry", "web"]),
    ("crates/cluster", &["model"]),
    ("crates/commands", &["cluster", "config", "model"]),
    ("crates/config", &["model"]),
    ("crates/dataplane", &["forwarder", "kernel", "model", "table"]),
    ("crates/demo", &["cluster", "dataplane", "kernel", "model", "sandbox", "simulate"]),
    ("crates/forwarder", &["kernel", "model"]),
    ("crates/kernel", &[]),
    ("crates/model", &[]),
    ("crates/sandbox", &["kernel"]),
    ("crates/simulate", &["kernel"]),
    ("crates/table", &["kernel", "model"]),
    ("crates/web", &["config", "model"]),
    ("crates/telemetry", &["cluster", "config", "dataplane", "kernel", "model"]),
];

/// What their tests may use besides.
const DIRECTIONS_OF_TESTS: &[(&str, &[&str])] = &[
    ("crates/agent", &["simulate"]),
    ("crates/dataplane", &["simulate"]),
    // Where to find the binary of another package.
    ("crates/demo", &["scenarios"]),
];

fn ours() -> Vec<Package> {
    packages().unwrap().into_iter().filter(Package::is_ours).collect()
}

#[test]
fn licences_are_permissive() {
    let all = packages().unwrap();
    assert!(all.len() > 10, "cargo metadata lists {} packages only", all.len());
    let verdict = |package: &Package| match &package.licence {
        None => Some(format!("{}: names no licence", package.name)),
        Some(text) => match licence::parse(text) {
            Ok(licence) if licence.is_permissive() => None,
            Ok(_) => Some(format!("{}: {text} is not permissive", package.name)),
            Err(problem) => Some(format!("{}: {text:?}: {problem}", package.name)),
        },
    };
    let refused: Vec<String> = all.iter().filter_map(verdict).collect();
    assert!(refused.is_empty(), "replace these dependencies:\n{}", refused.join("\n"));
}

/// The log takes lines of other crates for those of libraries, which are heard only at `-v 8`.
#[test]
fn the_log_knows_the_crates_of_the_agent() {
    let path = checks::root().join("crates/telemetry/src/logging/levels.rs");
    let code = std::fs::read_to_string(path).unwrap();
    let (_, used) = DIRECTIONS.iter().find(|(folder, _)| *folder == "crates/agent").unwrap();
    let (_, below) = DIRECTIONS.iter().find(|(folder, _)| *folder == "crates/dataplane").unwrap();
    let unknown: Vec<_> =
        used.iter().chain(*below).filter(|name| !code.contains(&format!("\"{name}\","))).collect();
    assert!(unknown.is_empty(), "add {unknown:?} to is_ours");
}

#[test]
fn crates_depend_in_the_allowed_directions() {
    let mut wrong = Vec::new();
    for package in ours() {
        let folder = package.folder.as_deref().unwrap_or_default();
        if !folder.starts_with("crates/") {
            let all = [&package.dependencies[..], &package.test_dependencies[..]].concat();
            let uses_agent = ours_of(&all).any(|name| name == "agent");
            wrong.extend(uses_agent.then(|| format!("{folder} must not depend on agent")));
            continue;
        }
        let Some((_, allowed)) = DIRECTIONS.iter().find(|(name, _)| *name == folder) else {
            wrong.push(format!("{folder} has no entry in DIRECTIONS"));
            continue;
        };
        let besides = DIRECTIONS_OF_TESTS.iter().find(|(name, _)| *name == folder);
        let besides = besides.map_or(&[][..], |(_, names)| names);
        wrong.extend(
            ours_of(&package.dependencies)
                .filter(|name| !allowed.contains(name))
                .map(|name| format!("{folder} must not depend on {name}")),
        );
        wrong.extend(
            ours_of(&package.test_dependencies)
                .filter(|name| !allowed.contains(name) && !besides.contains(name))
                .map(|name| format!("tests of {folder} must not depend on {name}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn ours_of(dependencies: &[String]) -> impl Iterator<Item = &str> {
    dependencies.iter().filter_map(|name| name.strip_prefix("pointsman-"))
}

/// The table of docs/dependencies.md and the manifests say the same, in both directions.
#[test]
fn direct_dependencies_are_written_down() {
    let all = packages().unwrap();
    let document = std::fs::read_to_string(checks::root().join("docs/dependencies.md")).unwrap();
    let used: BTreeSet<String> = ours()
        .iter()
        .flat_map(|package| [&package.dependencies[..], &package.test_dependencies[..]].concat())
        .filter(|name| !name.starts_with("pointsman-"))
        .collect();
    let named = |cells: &Vec<&str>| cells.first().is_some_and(|cell| cell.starts_with('`'));
    let written: Vec<Vec<&str>> = rows(&document).filter(named).collect();
    let names: BTreeSet<String> = written.iter().map(|cells| cells[0].trim_matches('`').to_owned()).collect();
    let missing: Vec<_> = used.difference(&names).collect();
    let needless: Vec<_> = names.difference(&used).collect();
    assert!(missing.is_empty(), "docs/dependencies.md lacks {missing:?}");
    assert!(needless.is_empty(), "docs/dependencies.md names what is not used: {needless:?}");
    for cells in written {
        let name = cells[0].trim_matches('`');
        let licence = all.iter().find(|package| package.name == name).and_then(|p| p.licence.as_deref());
        assert!(
            cells.get(1) == licence.as_ref(),
            "{name}: its licence is {licence:?}, not {:?}",
            cells.get(1)
        );
        assert!(cells.get(2).is_some_and(|reason| !reason.is_empty()), "{name}: say why it is there");
    }
}

#[test]
fn every_package_inherits_the_workspace_lints() {
    for package in ours() {
        let path = checks::root().join(package.folder.unwrap_or_default()).join("Cargo.toml");
        let manifest = std::fs::read_to_string(&path).unwrap();
        let section = manifest.split("[lints]").nth(1).unwrap_or_default().trim_start();
        assert!(section.starts_with("workspace = true"), "{}: inherit the lints", path.display());
    }
}
