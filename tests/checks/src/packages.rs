//! The packages of the workspace and everything they pull in, as `cargo metadata` tells.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::root;

/// One package: ours or a dependency.
#[derive(Clone, Debug)]
pub struct Package {
    pub name: String,
    /// The SPDX expression; `None` if the package names only a file, or nothing.
    pub licence: Option<String>,
    /// Names of what it is built from.
    pub dependencies: Vec<String>,
    /// Names of what only its tests and examples use.
    pub test_dependencies: Vec<String>,
    /// Where it lives, seen from the root; `None` for packages from elsewhere.
    pub folder: Option<String>,
}

impl Package {
    pub fn is_ours(&self) -> bool {
        self.folder.is_some()
    }
}

/// All packages that a build on this machine can use, with every feature.
///
/// Nearly all were downloaded by the build that runs this. Those that only an optional feature needs may not be there
/// yet, and are downloaded then.
pub fn packages() -> Result<Vec<Package>, String> {
    let host = host()?;
    let online = ["metadata", "--format-version=1", "--locked", "--all-features", "--filter-platform", &host];
    let offline = [&online[..], &["--offline"]].concat();
    let metadata = cargo(&offline).or_else(|_| cargo(&online))?;
    let metadata: Value =
        serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let list = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    Ok(list.iter().map(package).collect())
}

fn package(value: &Value) -> Package {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let (for_tests, dependencies): (Vec<&Value>, Vec<&Value>) =
        value["dependencies"].as_array().into_iter().flatten().partition(|asked| asked["kind"] == "dev");
    let names = |asked: Vec<&Value>| asked.into_iter().filter_map(|asked| text(&asked["name"])).collect();
    let manifest = Path::new(value["manifest_path"].as_str().unwrap_or_default());
    let folder = manifest.parent().and_then(|folder| folder.strip_prefix(root()).ok());
    Package {
        name: text(&value["name"]).unwrap_or_default(),
        licence: text(&value["license"]),
        dependencies: names(dependencies),
        test_dependencies: names(for_tests),
        folder: folder.filter(|_| value["source"].is_null()).map(|path| path.display().to_string()),
    }
}

fn host() -> Result<String, String> {
    let version = cargo(&["-vV"])?;
    let line = version.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).ok_or_else(|| "cargo does not say for which host it is".into())
}

fn cargo(arguments: &[&str]) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(arguments).current_dir(root()).output();
    let output = output.map_err(|error| format!("cargo cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("cargo {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)))
}
