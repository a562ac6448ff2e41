//! The `iptables` tools, run as programs.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::ToolError;

/// Where tools live that an ordinary user's PATH does not name.
const SYSTEM: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];
/// Seconds to wait for another program that holds the lock of the tables.
const LOCK_SECONDS: &str = "5";

/// One address family's tools of one variant, as `…-save` and `…-restore`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tools {
    save: PathBuf,
    restore: PathBuf,
}

impl Tools {
    /// Those that are installed: the two variants where they can be told apart, else whatever `iptables` is.
    pub fn installed(is_ipv6: bool) -> Vec<Tools> {
        let base = if is_ipv6 { "ip6tables" } else { "iptables" };
        let variants: Vec<Tools> = ["-legacy", "-nft"].iter().filter_map(|end| find(base, end)).collect();
        if variants.is_empty() { find(base, "").into_iter().collect() } else { variants }
    }

    /// Every table, in the form that [`restore`](Tools::restore) takes.
    pub fn save(&self) -> Result<String, ToolError> {
        let output = run(&self.save, &mut Command::new(&self.save), "")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Carry out a script, each table of it wholly or not at all; what it does not name stays.
    pub fn restore(&self, script: &str) -> Result<(), ToolError> {
        let mut command = Command::new(&self.restore);
        command.args(["--noflush", "--counters", "-w", LOCK_SECONDS]);
        run(&self.restore, &mut command, script).map(drop)
    }
}

fn find(base: &str, variant: &str) -> Option<Tools> {
    let save = in_path(&format!("{base}{variant}-save"))?;
    let restore = in_path(&format!("{base}{variant}-restore"))?;
    Some(Tools { save, restore })
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn run(tool: &Path, command: &mut Command, input: &str) -> Result<Output, ToolError> {
    let failed = |source| ToolError::Start { tool: tool.to_owned(), source };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that stops reading has a reason, and says it.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let said = if said.is_empty() { output.status.to_string() } else { said };
    Err(ToolError::Refused { tool: tool.to_owned(), said, line: None })
}
