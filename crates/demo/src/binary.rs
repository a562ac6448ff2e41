//! Finding the agent: the `kube-proxy` binary that plays the main part.

use std::path::{Path, PathBuf};

use super::DemoError;

/// Names a `kube-proxy` to use instead of the one beside this program.
pub(super) const OVERRIDE: &str = "POINTSMAN_KUBE_PROXY";

const NAME: &str = "kube-proxy";

/// The path of an existing `kube-proxy`.
pub(super) fn kube_proxy() -> Result<PathBuf, DemoError> {
    let path = match std::env::var_os(OVERRIDE) {
        // A bare name would be looked for on PATH when it is started.
        Some(path) => std::path::absolute(path),
        None => std::env::current_exe().map(|own| beside(&own)),
    };
    let path = path.map_err(|source| DemoError::System { what: "find kube-proxy", source })?;
    if path.is_file() { Ok(path) } else { Err(DemoError::NoAgent(path)) }
}

fn beside(own: &Path) -> PathBuf {
    own.with_file_name(NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_looked_for_beside_the_demo() {
        assert_eq!(beside(Path::new("/opt/bin/pointsman-demo")), Path::new("/opt/bin/kube-proxy"));
    }
}
