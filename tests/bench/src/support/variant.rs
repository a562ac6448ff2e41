//! The two variants of the iptables tools, and how a process is made to use one of them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

use kernel::netns::Namespace;
use serde::{Deserialize, Serialize};

/// Where tools live that an ordinary user's PATH does not name.
const SYSTEM: [&str; 2] = ["/usr/sbin", "/sbin"];
const FAMILIES: [&str; 2] = ["iptables", "ip6tables"];
const PROGRAMS: [&str; 3] = ["", "-save", "-restore"];
/// The kubelet's chain, by which others find out which variant the node uses.
const HINT: &str = "KUBE-IPTABLES-HINT";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolVariant {
    Legacy,
    Nft,
}

impl ToolVariant {
    pub const BOTH: [ToolVariant; 2] = [ToolVariant::Legacy, ToolVariant::Nft];

    /// As the tools are called.
    pub fn name(self) -> &'static str {
        match self {
            ToolVariant::Legacy => "iptables-legacy",
            ToolVariant::Nft => "iptables-nft",
        }
    }

    pub fn of_kernel(self) -> kernel::iptables::Variant {
        match self {
            ToolVariant::Legacy => kernel::iptables::Variant::Legacy,
            ToolVariant::Nft => kernel::iptables::Variant::Nft,
        }
    }

    pub fn parse(text: &str) -> Result<ToolVariant, String> {
        let end = |one: &ToolVariant| one.name().trim_start_matches("iptables-") == text;
        ToolVariant::BOTH.into_iter().find(end).ok_or(format!("{text:?} is neither legacy nor nft"))
    }

    /// A program of this variant, as `iptables` and `-save` name it; the error says what is missing.
    pub fn find(self, family: &str, program: &str) -> Result<PathBuf, String> {
        let name = format!("{family}{}{program}", self.name().trim_start_matches("iptables"));
        let path = env::var_os("PATH").unwrap_or_default();
        let mut folders = env::split_paths(&path).chain(SYSTEM.iter().map(PathBuf::from));
        folders
            .find_map(|folder| Some(folder.join(&name)).filter(|file| file.is_file()))
            .ok_or(format!("{name} is not installed"))
    }

    /// Whether it works on this machine; the error says why not.
    pub fn check(self) -> Result<(), String> {
        for (family, program) in names() {
            self.find(family, program)?;
        }
        let namespace = Namespace::new().map_err(|error| error.to_string())?;
        self.hint(&namespace)
    }

    /// Let the node say that this is its variant, as a kubelet does.
    pub fn hint(self, node: &Namespace) -> Result<(), String> {
        for family in FAMILIES {
            let tool = self.find(family, "")?;
            let mut command = Command::new(&tool);
            command.args(["-w", "5", "-t", "mangle", "-N", HINT]).stdin(Stdio::null());
            node.enter(&mut command).map_err(|error| error.to_string())?;
            let output = command.output().map_err(|error| format!("{}: {error}", tool.display()))?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                return Err(format!("{} does not work here: {}", tool.display(), said.trim()));
            }
        }
        Ok(())
    }

    /// Fill `folder` with this variant's tools under the names without a variant.
    pub fn lay_out(self, folder: &Path) -> Result<(), String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for (family, program) in names() {
            let link = folder.join(format!("{family}{program}"));
            match std::os::unix::fs::symlink(self.find(family, program)?, &link) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(format!("{}: {error}", link.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    FAMILIES.into_iter().flat_map(|family| PROGRAMS.into_iter().map(move |program| (family, program)))
}

/// The search path with `folder` before all others.
pub fn path_with(folder: &Path) -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = [folder.to_owned()].into_iter().chain(env::split_paths(&path));
    // It fails only if the folder's name holds a colon; then the path is what it was.
    env::join_paths(folders).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_known_by_the_end_of_its_name() {
        assert_eq!(ToolVariant::parse("legacy"), Ok(ToolVariant::Legacy));
        assert_eq!(ToolVariant::parse("nft"), Ok(ToolVariant::Nft));
        assert!(ToolVariant::parse("iptables").is_err());
    }

    #[test]
    fn the_folder_comes_first_in_the_search_path() {
        let path = path_with(Path::new("/tools"));
        assert_eq!(env::split_paths(&path).next(), Some(PathBuf::from("/tools")));
    }
}
