//! Running the tools of iptables as another program would.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sandbox::Namespace;

/// Whether this machine has a tool.
pub fn is_installed(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(tool).exists())
}

/// Where `scripts/setup` unpacks what it does not install.
pub fn unpacked(name: &str) -> Option<PathBuf> {
    let caches = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = caches.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    cache.map(|cache| cache.join("pointsman").join(name))
}

/// Run one of the tools in a namespace, with a lock of its own, and return what it printed.
pub fn run(
    node: &Namespace,
    lock: &Path,
    tool: &str,
    arguments: &[&str],
    input: &str,
) -> Result<String, String> {
    let mut command = Command::new(tool);
    command.args(arguments).env("XTABLES_LOCKFILE", lock);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    node.enter(&mut command).map_err(|e| e.to_string())?;
    let mut child = command.spawn().map_err(|e| format!("{tool}: {e}"))?;
    let mut stdin = child.stdin.take();
    let written = stdin.as_mut().map(|stdin| std::io::Write::write_all(stdin, input.as_bytes()));
    drop(stdin);
    let output = child.wait_with_output().map_err(|e| format!("{tool}: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match (output.status.success(), written) {
        (true, None | Some(Ok(()))) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        (true, Some(Err(error))) => Err(format!("{tool} did not read its input: {error}")),
        (false, _) => Err(format!("{tool} {}: {}", arguments.join(" "), said.trim())),
    }
}
