//! The command line: parse → configuration → [`Options`]. Every error is found before any is reported.
//!
//! What a flag that is a setting means stands in `config::settings`; what else can be ordered in `orders`.

mod help;
mod orders;
mod read;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::config::{self, ConfigFile, Configuration, Endpoint, Place, Surroundings};
use crate::{Options, demo};
use orders::{Orders, Port};
use read::Line;

pub use help::help;

/// What the command line asks for.
#[derive(Debug)]
pub enum Command {
    Run(Box<Options>),
    Demo(demo::Invocation),
    /// Write the configuration to a file.
    WriteConfig {
        path: PathBuf,
        yaml: String,
    },
    Cleanup,
    InitOnly,
    Help,
    Version,
}

/// A command, and what is to be said before it is done.
#[derive(Debug)]
pub struct Parsed {
    pub command: Command,
    pub verbosity: u8,
    pub warnings: Vec<String>,
}

impl Parsed {
    fn plain(command: Command) -> Parsed {
        Parsed { command, verbosity: 0, warnings: Vec::new() }
    }
}

/// Parse and validate. The message lists every error, one a line.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Parsed, String> {
    let mut arguments = arguments.peekable();
    if arguments.next_if(|first| first == "demo").is_some() {
        let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
        return demo::parse(arguments).map(|invocation| Parsed::plain(Command::Demo(invocation)));
    }
    let line = read::read(arguments);
    if line.orders.help {
        return Ok(Parsed::plain(Command::Help));
    }
    if !matches!(line.orders.version.as_str(), "" | "false") {
        return Ok(Parsed::plain(Command::Version));
    }
    decide(line).map_err(|problems| problems.join("\nkube-proxy: "))
}

/// All that was said, in one place.
struct Gathered {
    configuration: Configuration,
    place: Place,
    config_file: Option<ConfigFile>,
    warnings: Vec<String>,
}

fn decide(mut line: Line) -> Result<Parsed, Vec<String>> {
    let mut problems = std::mem::take(&mut line.problems);
    let orders = line.orders.clone();
    let gathered = match orders.config.as_str() {
        "" => Ok(from_flags(line)),
        path => from_file(path, &line, &mut problems),
    };
    let Gathered { mut configuration, place, config_file, mut warnings } = match gathered {
        Ok(gathered) => gathered,
        Err(problem) => {
            problems.push(problem);
            return Err(problems);
        }
    };
    let mode_is_default = config::complete(&mut configuration, &place);
    let surroundings = Surroundings {
        manifests: orders.manifests.clone(),
        master: orders.master.clone(),
        mode_is_default,
        config_file,
    };
    let verbosity = u8::try_from(configuration.logging.verbosity.0).unwrap_or(u8::MAX);
    match command(&orders, configuration, &surroundings, &place, &mut warnings) {
        Ok(command) if problems.is_empty() => Ok(Parsed { command, verbosity, warnings }),
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
    let mut warnings = Vec::new();
    let configuration = with_ports(line.configuration, &line.orders, &mut warnings);
    Gathered { configuration, place: Place::Flags, config_file: None, warnings }
}

fn from_file(path: &str, line: &Line, problems: &mut Vec<String>) -> Result<Gathered, String> {
    let loaded = config::load(Path::new(path))?;
    let mut configuration = loaded.configuration;
    problems.extend(loaded.problems.into_iter().map(|problem| located(path, problem)));
    let mut warnings: Vec<String> =
        loaded.warnings.into_iter().map(|warning| format!("{path}: {warning}")).collect();
    warnings.extend(read::apply_beside_file(&line.given, &mut configuration));
    let config_file = Some(ConfigFile { path: path.into(), text: loaded.text });
    Ok(Gathered { configuration, place: Place::File, config_file, warnings })
}

/// The deprecated flags name a port for an address that has none; 0 serves nothing.
fn with_ports(
    mut configuration: Configuration,
    orders: &Orders,
    warnings: &mut Vec<String>,
) -> Configuration {
    apply_port(&mut configuration.healthz_bind_address, orders.healthz_port, "healthz", warnings);
    apply_port(&mut configuration.metrics_bind_address, orders.metrics_port, "metrics", warnings);
    configuration
}

fn apply_port<const PORT: u16>(
    endpoint: &mut Endpoint<PORT>,
    port: Option<Port>,
    name: &str,
    warnings: &mut Vec<String>,
) {
    let Some(port) = port.and_then(|port| u16::try_from(port.0).ok()) else { return };
    warnings.push(format!("--{name}-port is deprecated; use --{name}-bind-address"));
    match (port, &mut *endpoint) {
        (0, endpoint) => *endpoint = Endpoint::Nowhere,
        (port, Endpoint::At(_, wanted @ None)) => *wanted = Some(port),
        _ => {}
    }
}

fn command(
    orders: &Orders,
    configuration: Configuration,
    surroundings: &Surroundings,
    place: &Place,
    warnings: &mut Vec<String>,
) -> Result<Command, Vec<String>> {
    if !orders.write_config_to.is_empty() {
        let yaml = config::to_yaml(&configuration);
        return Ok(Command::WriteConfig { path: PathBuf::from(&orders.write_config_to), yaml });
    }
    if orders.cleanup {
        return Ok(Command::Cleanup);
    }
    let kubeconfig = &configuration.client_connection.kubeconfig;
    let idle = config::ineffective(&configuration, place);
    if *place == Place::File && !(orders.manifests.is_empty() || kubeconfig.is_empty()) {
        warnings.push("Objects come from --manifests: clientConnection.kubeconfig has no effect".into());
    }
    if !idle.is_empty() {
        warnings.push(format!("These settings have no effect in this build: {}", idle.join(", ")));
    }
    let options = config::resolve(configuration, surroundings, place)?;
    match orders.init_only {
        true => Ok(Command::InitOnly),
        false => Ok(Command::Run(Box::new(options))),
    }
}

#[cfg(test)]
mod tests;
