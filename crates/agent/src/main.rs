//! `kube-proxy`: parse, then do what was asked. Errors are one line on stderr each, and exit code 1. A first word such as
//! `explain` asks the agent that runs on this node.

use std::io::Write;
use std::process::ExitCode;

use config::flags::{self, Command, Parsed};

/// Looks at allocations only once profiling is enabled.
#[global_allocator]
static ALLOCATOR: kernel::profile::heap::SamplingAllocator = kernel::profile::heap::SamplingAllocator;

fn main() -> ExitCode {
    if let Some(code) = commands::run(std::env::args_os()) {
        return code;
    }
    kernel::memory::stay_small();
    let outcome = flags::parse(std::env::args_os().skip(1), agent::default_mode).and_then(dispatch);
    agent::logging::flush();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // The last word of a failed start; logging may not be up.
            commands::to_stderr(&format!("kube-proxy: {message}"));
            ExitCode::FAILURE
        }
    }
}

fn dispatch(parsed: Parsed) -> Result<(), String> {
    if !matches!(parsed.command, Command::Print(_)) {
        agent::logging::configure(&parsed.logging);
    }
    parsed.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    match parsed.command {
        // The reader that closed the pipe has read enough.
        Command::Print(text) => drop(std::io::stdout().write_all(text.as_bytes())),
        Command::WriteConfig { path, yaml } => {
            std::fs::write(&path, yaml)
                .map_err(|error| format!("--write-config-to: cannot write {}: {error}", path.display()))?;
            tracing::info!(file = %path.display(), "Wrote the configuration");
        }
        Command::Cleanup { is_awaited } => {
            agent::cleanup().map_err(|failures| {
                failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("\nkube-proxy: ")
            })?;
            tracing::info!("Removed all rules of kube-proxy");
            if is_awaited {
                agent::wait_to_be_terminated().map_err(|error| error.to_string())?;
            }
        }
        Command::InitOnly(options) => {
            agent::init_only(&options)?;
            tracing::info!("Set up the node");
        }
        Command::Run(resolved) => return agent::run(*resolved).map_err(|error| error.to_string()),
    }
    Ok(())
}
