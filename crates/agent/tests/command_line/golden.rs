//! Configurations as they are found in clusters: read, checked, written with every default, and read again. What is
//! written is kept beside them; `UPDATE_GOLDEN=1` rewrites it.

use super::*;
use std::path::Path;

const FOLDERS: [&str; 2] = ["tests/golden", "../config/src/examples"];

fn inputs() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let is_input = path.extension().is_some_and(|kind| kind == "yaml" || kind == "flags");
            if is_input && !path.to_string_lossy().ends_with(".written.yaml") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn arguments(input: &Path) -> Vec<String> {
    match input.extension().and_then(|kind| kind.to_str()) {
        Some("flags") => std::fs::read_to_string(input).unwrap().lines().map(str::to_owned).collect(),
        _ => vec![format!("--config={}", input.display())],
    }
}

fn written(arguments: &[String], to: &Path) -> String {
    let output = run(kube_proxy().args(arguments).arg(format!("--write-config-to={}", to.display())));
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    std::fs::read_to_string(to).unwrap()
}

#[test]
fn configurations_of_clusters() {
    let scratch = Scratch::new("golden");
    let inputs = inputs();
    assert!(inputs.len() >= 7, "{inputs:?}");
    for input in inputs {
        let name = input.file_stem().unwrap().to_string_lossy().into_owned();
        let golden =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.written.yaml"));
        let first = written(&arguments(&input), &scratch.path(&name));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&golden, &first).unwrap();
        }
        let wanted = std::fs::read_to_string(&golden).unwrap_or_default();
        assert!(first == wanted, "{} is not what {} holds:\n{first}", input.display(), golden.display());
        let again = written(&arguments(&golden), &scratch.path(&format!("{name}-again")));
        assert_eq!(again, first, "{name} changes when it is read again");
    }
}
