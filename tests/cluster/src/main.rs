//! `real-cluster COMMAND`: what `make cluster` and `make e2e` run.
//!
//! The work is done by a second process. The first one waits for it, ends it on Ctrl-C, and removes what is left: so
//! nothing stays behind, however the work ends.
#![allow(clippy::print_stderr, reason = "a command line tool")]

use std::process::{Command, ExitCode};

use kernel::process::{Signal, die_with_parent};
use real_cluster::commands;
use tokio::signal::unix::{SignalKind, signal};

/// Set in the process that works.
const WORKER: &str = "POINTSMAN_REAL_CLUSTER_WORKER";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = if std::env::var_os(WORKER).is_some() { commands::run(&words) } else { supervise(&words) };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("real-cluster: {error}");
            ExitCode::FAILURE
        }
    }
}

fn supervise(words: &[String]) -> Result<ExitCode, String> {
    let myself = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new(myself);
    command.args(words).env(WORKER, "1");
    die_with_parent(&mut command, Signal::Kill);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| e.to_string())?;
    let code = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        // Its terminal was closed.
        let mut hang_up = signal(SignalKind::hangup())?;
        let mut child = command.spawn()?;
        let code = loop {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => break None,
                _ = terminate.recv() => break None,
                _ = hang_up.recv() => break None,
                () = tokio::time::sleep(std::time::Duration::from_millis(100)) => {}
            }
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
        };
        // What it started ends with it.
        let _ = child.kill();
        child.wait()?;
        real_cluster::leftovers::remove(child.id());
        Ok::<_, std::io::Error>(code)
    });
    let status = code.map_err(|e| e.to_string())?;
    // Ctrl-C is how one asks for the end.
    let code = status.map_or(0, |status| status.code().unwrap_or(1));
    Ok(u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from))
}
