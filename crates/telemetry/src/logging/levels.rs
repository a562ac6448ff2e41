//! Which lines are heard: `-v` for all of them, `vmodule` for those of single source files.

use config::Logging;
use tracing_core::{Level, LevelFilter, Metadata};

use super::pattern::matches;

/// What is worth knowing of single services; see [`OF_SERVICES`].
const SERVICES: u32 = 2;
/// The target of lines that are heard from there on.
pub const OF_SERVICES: &str = "agent::of_services";
/// Every sync, every retry.
const DETAILS: u32 = 4;
/// Every request.
const REQUESTS: u32 = 6;
/// Libraries know neither the object nor what to do; they are heard only by who looks for a fault in them.
const LIBRARIES: u32 = 8;
const LIBRARIES_IN_FULL: u32 = 10;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Levels {
    pub(super) verbosity: u32,
    modules: Vec<(String, u32)>,
}

impl Levels {
    pub(super) fn of(logging: &Logging) -> Levels {
        Levels { verbosity: logging.verbosity.0.unsigned_abs(), modules: logging.vmodule.0.clone() }
    }

    pub(super) fn admit(&self, metadata: &Metadata<'_>) -> bool {
        let needed = level(metadata);
        needed <= self.verbosity || needed <= self.of_file(metadata.file().unwrap_or_default())
    }

    /// What may be admitted at all.
    pub(super) fn ceiling(&self) -> LevelFilter {
        match self.modules.iter().map(|(_, level)| *level).fold(self.verbosity, u32::max) {
            0..DETAILS => LevelFilter::INFO,
            DETAILS..REQUESTS => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        }
    }

    /// As with klog the first pattern that fits counts, for the name without its folder and ending.
    fn of_file(&self, file: &str) -> u32 {
        let (name, folder) = names(file);
        let fits =
            |pattern: &str| matches(pattern, name) || folder.is_some_and(|folder| matches(pattern, folder));
        self.modules.iter().find(|(pattern, _)| fits(pattern)).map_or(0, |(_, level)| *level)
    }
}

/// The name of a source file, and for a `mod.rs` also that of its folder: Rust knows the module by that.
fn names(file: &str) -> (&str, Option<&str>) {
    let mut parts = file.rsplit('/');
    let name = parts.next().unwrap_or_default();
    let name = name.strip_suffix(".rs").unwrap_or(name);
    (name, parts.next().filter(|_| name == "mod"))
}

/// The level from which a line is heard.
pub(super) fn level(metadata: &Metadata<'_>) -> u32 {
    match (is_ours(metadata.target()), *metadata.level()) {
        (true, Level::TRACE) => REQUESTS,
        (true, Level::DEBUG) => DETAILS,
        (true, _) if metadata.target() == OF_SERVICES => SERVICES,
        (true, _) => 0,
        (false, Level::TRACE) => LIBRARIES_IN_FULL,
        (false, _) => LIBRARIES,
    }
}

fn is_ours(target: &str) -> bool {
    const CRATES: [&str; 12] = [
        "agent",
        "cluster",
        "commands",
        "config",
        "dataplane",
        "forwarder",
        "kernel",
        "kube_proxy",
        "model",
        "table",
        "telemetry",
        "web",
    ];
    CRATES.contains(&target.split("::").next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pattern_that_fits_counts() {
        let modules = [("lane", 5), ("sync*", 4), ("*", 1), ("sync", 9), ("nftables", 7)];
        let modules = modules.map(|(pattern, level)| (pattern.to_owned(), level)).to_vec();
        let levels = Levels { verbosity: 0, modules: modules.clone() };
        assert_eq!(levels.of_file("crates/agent/src/lane.rs"), 5);
        assert_eq!(levels.of_file("crates/agent/src/sync.rs"), 4);
        assert_eq!(levels.of_file("other.rs"), 1);
        let levels = Levels { verbosity: 0, modules: modules[4..].to_vec() };
        assert_eq!(levels.of_file("crates/dataplane/src/nftables/mod.rs"), 7);
        assert_eq!(levels.of_file("crates/dataplane/src/nftables/render.rs"), 0);
        assert_eq!(levels.ceiling(), LevelFilter::TRACE);
        assert_eq!(Levels { verbosity: 5, modules: Vec::new() }.ceiling(), LevelFilter::DEBUG);
        assert_eq!(Levels::default().ceiling(), LevelFilter::INFO);
    }
}
