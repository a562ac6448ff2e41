//! The command line: parse → configuration → [`Options`]. Every error is found before any is reported.
//!
//! What a flag that is a setting means stands in `config::settings`; what else can be ordered in `orders`.

mod completion;
mod help;
mod orders;
mod ports;
mod read;
mod show;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::complete::{Completed, complete, ineffective};
use crate::file::{self, ConfigFile, Loaded, load};
use crate::origin::{Origin, Place};
use crate::resolve::{SourceFlags, resolve};
use crate::yaml::to_yaml;
use crate::{Configuration, DefaultMode, Logging, Mode, Options, Resolved, Value, version};
use orders::Orders;
use read::Line;

pub use help::help;
pub use read::usages;
pub use show::values;

/// Where the demo went: `kube-proxy demo` was a command once.
const DEMO: &str = "demo: the demo is a program of its own; start it with `make run` or `pointsman-demo`";

/// What the command line asks for.
#[derive(Debug)]
pub enum Command {
    Run(Box<Resolved>),
    /// Write the configuration to a file.
    WriteConfig {
        path: PathBuf,
        yaml: String,
    },
    Cleanup {
        /// Its end is not the end of the process.
        is_awaited: bool,
    },
    /// Set up the node and end.
    InitOnly(Box<Options>),
    /// Nothing but to say something: help, the version, a shell's completions.
    Print(String),
}

/// A command, and what is to be said before it is done.
#[derive(Debug)]
pub struct Parsed {
    pub command: Command,
    pub logging: Logging,
    pub warnings: Vec<String>,
}

impl Parsed {
    fn plain(command: Command) -> Parsed {
        Parsed { command, logging: Logging::default(), warnings: Vec::new() }
    }
}

/// Parse and validate. The message lists every error, one a line. `default_mode` is asked if no mode is set for this
/// node.
pub fn parse(
    arguments: impl Iterator<Item = OsString>,
    default_mode: fn() -> DefaultMode,
) -> Result<Parsed, String> {
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    parse_beside(arguments, default_mode, |path| match path {
        "" => None,
        path => Some(file::read_text(Path::new(path))),
    })
}

/// The same with the text of the configuration file from elsewhere.
pub(crate) fn parse_beside(
    arguments: impl Iterator<Item = String>,
    default_mode: fn() -> DefaultMode,
    read_file: impl FnOnce(&str) -> Option<Result<String, String>>,
) -> Result<Parsed, String> {
    let mut arguments = arguments.peekable();
    if arguments.next_if(|first| first == "demo").is_some() {
        return Err(DEMO.into());
    }
    if arguments.next_if(|first| first == "completion").is_some() {
        return completion::script(arguments).map(|script| Parsed::plain(Command::Print(script)));
    }
    let line = read::read(arguments.collect());
    if let Some(text) = answer(&line.orders)? {
        return Ok(Parsed::plain(Command::Print(text)));
    }
    let text = read_file(&line.orders.config);
    decide(line, text, default_mode).map_err(|problems| problems.join("\nkube-proxy: "))
}

/// What was asked instead of work to be done.
fn answer(orders: &Orders) -> Result<Option<String>, String> {
    if orders.help {
        return Ok(Some(help()));
    }
    match orders.version.as_str() {
        "raw" => Ok(Some(version::raw())),
        // Upstream reports this version from then on; ours is a fact.
        text if text.starts_with('v') => Ok(None),
        "" => Ok(None),
        text => {
            let mut is_asked = false;
            is_asked
                .read_flag(text)
                .map_err(|_| format!("--version: {text:?} is not one of true, false and raw"))?;
            Ok(is_asked.then(version::line))
        }
    }
}

/// What the same command line would run with if its configuration file held this text; or every problem with that.
pub fn reconsider(
    file: &ConfigFile,
    text: String,
    default_mode: fn() -> DefaultMode,
) -> Result<Resolved, Vec<String>> {
    let line = read::read(file.arguments.clone());
    let Parsed { command, warnings, .. } = decide(line, Some(Ok(text)), default_mode)?;
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    match command {
        Command::Run(resolved) => Ok(*resolved),
        _ => Err(vec!["the command line does not start an agent".into()]),
    }
}

/// All that was said, in one place.
struct Gathered {
    configuration: Configuration,
    origin: Origin,
    warnings: Vec<String>,
}

/// `text` is what the configuration file holds, if one is named.
fn decide(
    mut line: Line,
    text: Option<Result<String, String>>,
    default_mode: fn() -> DefaultMode,
) -> Result<Parsed, Vec<String>> {
    let has_file = text.is_some();
    let problems = std::mem::take(&mut line.problems).into_iter();
    let problems = problems.filter(|problem| !(has_file && problem.is_moot_beside_file));
    let mut problems: Vec<String> = problems.map(|problem| problem.text).collect();
    let orders = line.orders.clone();
    let gathered = match text {
        None => Ok(from_flags(line)),
        Some(text) => text.and_then(|text| from_file(line, text, &mut problems)),
    };
    let Gathered { configuration, origin, mut warnings } = match gathered {
        Ok(gathered) => gathered,
        Err(problem) => {
            problems.push(problem);
            return Err(problems);
        }
    };
    // What is written may be for another node.
    let is_for_this_node = orders.write_config_to.is_empty() && !orders.cleanup && !orders.cleanup_and_wait;
    let default = if is_for_this_node { default_mode } else { DefaultMode::nftables };
    let completed = complete(configuration, origin, default);
    let logging = completed.configuration.logging.clone();
    match command(&orders, completed, &mut warnings) {
        Ok(command) if problems.is_empty() => Ok(Parsed { command, logging, warnings }),
        Ok(_) => Err(problems),
        Err(more) => {
            problems.extend(more.into_iter().map(|problem| located(&orders.config, problem)));
            Err(problems)
        }
    }
}

/// A problem of a field says in which file.
fn located(path: &str, problem: String) -> String {
    if path.is_empty() || problem.starts_with("--") { problem } else { format!("{path}: {problem}") }
}

fn from_flags(line: Line) -> Gathered {
    let given = line.given.iter().map(|(setting, _)| setting.path).collect();
    let mut configuration = line.configuration;
    let warnings = ports::apply(&line.orders, &mut configuration);
    Gathered { configuration, origin: Origin::new(Place::Flags, given), warnings }
}

fn from_file(line: Line, text: String, problems: &mut Vec<String>) -> Result<Gathered, String> {
    let path = &line.orders.config;
    let Loaded { mut configuration, mut given, warnings, problems: found } = load(Path::new(path), &text)?;
    problems.extend(found.into_iter().map(|problem| located(path, problem)));
    let mut warnings: Vec<String> =
        warnings.into_iter().map(|warning| format!("{path}: {warning}")).collect();
    warnings.extend(read::apply_beside_file(&line, &mut configuration, &mut given));
    let mut origin = Origin::new(Place::File, given);
    origin.config_file = Some(ConfigFile { path: path.into(), text, arguments: line.arguments });
    Ok(Gathered { configuration, origin, warnings })
}

fn command(
    orders: &Orders,
    completed: Completed,
    warnings: &mut Vec<String>,
) -> Result<Command, Vec<String>> {
    let flags = SourceFlags {
        manifests: orders.manifests.clone(),
        master: orders.master.clone(),
        service_counters: orders.service_counters,
    };
    if !orders.write_config_to.is_empty() {
        let yaml = to_yaml(&completed.configuration);
        resolve(completed, &flags)?;
        return Ok(Command::WriteConfig { path: PathBuf::from(&orders.write_config_to), yaml });
    }
    if orders.cleanup || orders.cleanup_and_wait {
        if orders.init_only {
            let problem = "--init-only prepares the node for an agent and cannot be combined with a clean-up, which removes the rules";
            return Err(vec![problem.into()]);
        }
        return Ok(Command::Cleanup { is_awaited: orders.cleanup_and_wait });
    }
    warnings.extend(idle(orders, &completed));
    let resolved = resolve(completed, &flags)?;
    match orders.init_only {
        true => Ok(Command::InitOnly(Box::new(resolved.options))),
        false => Ok(Command::Run(Box::new(resolved))),
    }
}

/// What was asked for and is not done.
fn idle(orders: &Orders, completed: &Completed) -> Vec<String> {
    let Completed { configuration, mode, origin } = completed;
    let mut warnings = Vec::new();
    let kubeconfig = &configuration.client_connection.kubeconfig;
    if origin.place == Place::File && !(orders.manifests.is_empty() || kubeconfig.is_empty()) {
        warnings.push("clientConnection.kubeconfig has no effect because --manifests is set".into());
    }
    if orders.service_counters && *mode == Mode::Iptables {
        warnings.push(format!(
            "--service-counters has no effect in mode {}: it counts in the modes nftables, ipvs and userspace",
            mode.word()
        ));
    }
    let gone: Vec<&str> = configuration.feature_gates.gone().collect();
    if !gone.is_empty() {
        warnings.push(format!(
            "These feature gates no longer have an effect; remove them from {}: {}",
            origin.name("featureGates"),
            gone.join(", ")
        ));
    }
    let names = ineffective(completed);
    if !names.is_empty() {
        let (mode, names) = (mode.word(), names.join(", "));
        warnings.push(format!("These settings have no effect in this build and mode ({mode}): {names}"));
    }
    warnings
}

#[cfg(test)]
mod tests;
