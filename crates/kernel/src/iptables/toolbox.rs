//! Where the programs are, and on which terms they are run.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::judge::judge;
use super::run::run;
use super::{Missing, ToolError, Variant, Version, version};

/// Where tools live that an ordinary user's PATH does not name.
const SYSTEM: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];
/// The legacy tools' lock, unless this variable names another.
const LOCK_FILE: &str = "/run/xtables.lock";
const LOCK_VARIABLE: &str = "XTABLES_LOCKFILE";

/// The terms on which programs are run.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Another lock than the system's, for tables in a network namespace that nothing else changes.
    pub lock_file: Option<PathBuf>,
    /// How long to wait for another program that holds the lock.
    pub lock_seconds: u32,
    /// When a program is given up and killed. The largest scripts take minutes with the nf_tables variant.
    pub limit: Duration,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms { lock_file: None, lock_seconds: 5, limit: Duration::from_secs(600) }
    }
}

impl Terms {
    pub(super) fn lock_file(&self) -> PathBuf {
        let named = self.lock_file.clone().or_else(|| std::env::var_os(LOCK_VARIABLE).map(PathBuf::from));
        named.unwrap_or_else(|| LOCK_FILE.into())
    }

    /// Run a tool with `input`, and return what it printed.
    pub(super) fn run(&self, tool: &Path, arguments: &[&str], input: &str) -> Result<String, ToolError> {
        let mut command = Command::new(tool);
        command.args(arguments);
        if let Some(file) = &self.lock_file {
            command.env(LOCK_VARIABLE, file);
        }
        let finished =
            run(&mut command, input.as_bytes(), self.limit).map_err(|source| match source.kind() {
                io::ErrorKind::TimedOut => ToolError::Slow { tool: tool.to_owned(), limit: self.limit },
                _ => ToolError::Start { tool: tool.to_owned(), source },
            })?;
        if finished.status.success() {
            return Ok(text(finished.output));
        }
        let said = text(finished.complaints);
        let said = if said.trim().is_empty() { finished.status.to_string() } else { said };
        Err(judge(tool, &said, input, self))
    }
}

/// Without a copy where the bytes are what they should be.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The folders to look for programs in, and the terms to run them on.
#[derive(Clone, Debug)]
pub struct Toolbox {
    pub folders: Vec<PathBuf>,
    pub terms: Terms,
}

impl Default for Toolbox {
    /// The folders of PATH; if no iptables is there, the system's too.
    fn default() -> Toolbox {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        let holds = |name: &str| folders.iter().any(|folder| folder.join(name).is_file());
        if !["iptables-restore", "iptables-legacy-restore", "iptables-nft-restore"].into_iter().any(holds) {
            folders.extend(SYSTEM.map(PathBuf::from));
        }
        Toolbox { folders, terms: Terms::default() }
    }
}

/// The three programs of one variant for one address family.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub(super) main: PathBuf,
    pub(super) save: PathBuf,
    pub(super) restore: PathBuf,
}

/// Programs that were found, and what they are.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) programs: Programs,
    pub(super) variant: Variant,
    pub(super) version: Result<Version, Missing>,
}

pub(super) fn name(is_ipv6: bool) -> &'static str {
    if is_ipv6 { "ip6tables" } else { "iptables" }
}

impl Toolbox {
    /// One of each variant at most: by its name, else the plain `iptables` if it is of that variant.
    pub(super) fn find(&self, is_ipv6: bool) -> Vec<Found> {
        let mut found: Vec<Found> = Variant::BOTH
            .into_iter()
            .filter_map(|variant| {
                let programs = self.programs(name(is_ipv6), variant.ending())?;
                let version = self.ask(&programs.main).map(|(version, _)| version);
                Some(Found { programs, variant, version })
            })
            .collect();
        if found.len() < Variant::BOTH.len() {
            let plain = self.programs(name(is_ipv6), "").map(|programs| self.plain(programs));
            found.extend(plain.filter(|plain| found.iter().all(|named| named.variant != plain.variant)));
        }
        found
    }

    fn plain(&self, programs: Programs) -> Found {
        let asked = self.ask(&programs.main);
        let variant = asked.as_ref().map_or(Variant::Legacy, |(_, variant)| *variant);
        Found { programs, variant, version: asked.map(|(version, _)| version) }
    }

    fn ask(&self, main: &Path) -> Result<(Version, Variant), Missing> {
        let said = self.terms.run(main, &["--version"], "").map_err(Missing::Failed)?;
        version::parse(&said)
            .ok_or_else(|| Missing::Unknown { tool: main.to_owned(), said: said.trim().to_owned() })
    }

    fn programs(&self, base: &str, ending: &str) -> Option<Programs> {
        Some(Programs {
            main: self.program(format!("{base}{ending}"))?,
            save: self.program(format!("{base}{ending}-save"))?,
            restore: self.program(format!("{base}{ending}-restore"))?,
        })
    }

    fn program(&self, name: String) -> Option<PathBuf> {
        self.folders.iter().map(|folder| folder.join(&name)).find(|file| file.is_file())
    }
}
