//! Finding the `kube-proxy` binary, built as these tests are.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Names a binary to use instead of building one.
pub const OVERRIDE: &str = "POINTSMAN_KUBE_PROXY";

/// The path of an up-to-date `kube-proxy`.
///
/// It belongs to another package, so cargo does not build it for our tests; asking cargo is cheap where
/// nothing changed. Call it before entering a user namespace, as the user whose files these are.
pub fn kube_proxy() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(OVERRIDE) {
        return Ok(path.into());
    }
    let own = std::env::current_exe().map_err(|e| format!("finding the running test: {e}"))?;
    let (target, profile) = place_of(&own).ok_or_else(|| {
        format!("{} does not lie in a target folder; name a kube-proxy in {OVERRIDE}", own.display())
    })?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    // What cargo tells the tests of one package about it is no setting of the build. Build scripts that look at
    // these (ring's does) would be run again by it and by the cargo that started us, in turns.
    let of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(of_package)) {
        build.env_remove(name);
    }
    let built = build
        .args(["build", "--quiet", "-p", "pointsman-agent", "--bin", "kube-proxy", "--profile"])
        .arg(if profile == "debug" { "dev" } else { profile })
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .map_err(|e| format!("running cargo to build kube-proxy: {e}; name a built one in {OVERRIDE}"))?;
    if !built.status.success() {
        return Err(format!("building kube-proxy: {}", String::from_utf8_lossy(&built.stderr)));
    }
    Ok(target.join(profile).join("kube-proxy"))
}

/// The target folder and the profile's folder in it: a test lies in `target/PROFILE/deps`, a program above that.
fn place_of(own: &Path) -> Option<(&Path, &str)> {
    let folder = own.parent()?;
    let profile = if folder.ends_with("deps") { folder.parent()? } else { folder };
    Some((profile.parent()?, profile.file_name()?.to_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_programs_know_their_profile() {
        for own in ["/a/target/release/deps/life-1", "/a/target/release/bench"] {
            assert_eq!(place_of(own.as_ref()), Some(("/a/target".as_ref(), "release")));
        }
    }
}
